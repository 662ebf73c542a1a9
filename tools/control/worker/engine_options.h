// What a job's spec says of the engine that runs it, in a worker or in the submitter's own process.
#pragma once

#include "actor/engine.h"
#include "proto/control.pb.h"

namespace oneflow {

// All options that follow from the spec; the process, its peers, and what is called are left to be set.
EngineOptions EngineOptionsOf(const pb::JobSpec& spec);

}  // namespace oneflow
