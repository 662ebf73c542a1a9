// What a worker has counted and fetched, as it tells it.
#pragma once

#include "actor/engine.h"
#include "proto/control.pb.h"

namespace oneflow {

// The engine's counts and the cpu time of this process so far.
pb::WorkerStats MakeWorkerStats(const EngineStats& engine);
// A value that the engine hands out now.
pb::TimedValue MakeTimedValue(Fetched fetched);

}  // namespace oneflow
