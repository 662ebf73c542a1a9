// Writes one file with the records of all processes of a job. Each writes PATH.part0, PATH.part1, ... beside it, then
// the first makes one file of all. So all processes must see PATH, as with weight files.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "actor/trace/trace_ring.h"
#include "oneflow_core/status.h"
#include "proto/program.pb.h"

namespace oneflow {

class PeerNetwork;

// Everything is borrowed. `peers` is null for a job of one process.
struct TraceSource {
  const pb::Program& program;
  int process = 0;
  std::vector<const TraceRing*> rings;
  PeerNetwork* peers = nullptr;
};

// Every process calls it, when nothing acts; `barrier` returns when all have called it as often. Clocks are compared
// with process 0's. The file appears under its name only when it is complete. Unavailable if the disk refuses, or if
// process 0 does not find a part.
absl::Status SaveTrace(const TraceSource& source, const std::string& path,
                       const std::function<absl::Status()>& barrier);

}  // namespace oneflow
