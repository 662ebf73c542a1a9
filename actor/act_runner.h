// Does the work of an actor's current act: the interface between an actor thread and its executor.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actor/actor.h"
#include "actor/stream_follower.h"
#include "oneflow_core/status.h"

namespace oneflow {

// Work of an act that remains until an event of its device has come.
using Afterwards = std::vector<std::pair<int, Then>>;

class ActRunner {
 public:
  virtual ~ActRunner() = default;
  // On the queue's actor thread; appends to `afterwards`. REQUIRES: actor.ready().
  virtual absl::Status RunAct(const Actor& actor, Afterwards& afterwards) = 0;

  // The position within the running act. Any thread.
  struct Place {
    std::string instruction;  // empty: before the first
    double seconds = 0;       // since the act began
  };
  // Empty if no act runs.
  virtual std::optional<Place> place() const { return std::nullopt; }
  // Seconds inside acts so far, the running one included; and since the last act ended, or since creation. Any thread.
  virtual double busy_seconds() const { return 0; }
  virtual double still_seconds() const { return 0; }
};

}  // namespace oneflow
