// Does the work of an actor's current act: what an actor thread needs to know of whoever does it.
#pragma once

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
};

}  // namespace oneflow
