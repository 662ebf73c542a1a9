// Does the work of an actor's current act: what an actor thread needs to know of whoever does it.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actor/actor.h"
#include "actor/stream_follower.h"
#include "oneflow_core/status.h"

namespace oneflow {

// What an act leaves to be done when an event of its device has come.
using Afterwards = std::vector<std::pair<int, Then>>;

class ActRunner {
 public:
  virtual ~ActRunner() = default;
  // On the queue's actor thread; appends to `afterwards`. REQUIRES: actor.ready().
  virtual absl::Status RunAct(const Actor& actor, Afterwards& afterwards) = 0;

  // Where in an act it is. Any thread.
  struct Place {
    std::string instruction;  // empty: before the first
    double seconds = 0;       // since the act began
  };
  // Nothing if it is in none.
  virtual std::optional<Place> place() const { return std::nullopt; }
  // Inside acts so far, the one that runs included; and since it ended an act, or was made. Any thread.
  virtual double busy_seconds() const { return 0; }
  virtual double still_seconds() const { return 0; }
};

}  // namespace oneflow
