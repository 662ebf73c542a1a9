// Does the work of an actor's current act: what an actor thread needs to know of whoever does it.
#pragma once

#include "actor/actor.h"
#include "oneflow_core/status.h"

namespace oneflow {

class ActRunner {
 public:
  virtual ~ActRunner() = default;
  // On the rank's actor thread. REQUIRES: actor.ready().
  virtual absl::Status RunAct(const Actor& actor) = 0;
};

}  // namespace oneflow
