// What a worker has counted, as it tells it.
#pragma once

#include "actor/engine.h"
#include "proto/control.pb.h"

namespace oneflow {

// The engine's counts and the cpu time of this process so far.
pb::WorkerStats MakeWorkerStats(const EngineStats& engine);

}  // namespace oneflow
