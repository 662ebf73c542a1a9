// The records of one process, in a file of its own until all are merged: frames of proto/trace.proto, each behind its
// length. Acts are written by the thousand, in columns.
#pragma once

#include <string>
#include <vector>

#include "actor/trace/trace.h"
#include "actor/trace/trace_ring.h"
#include "oneflow_core/status.h"
#include "proto/trace.pb.h"

namespace oneflow {

struct TracePart {
  pb::TraceHead head;           // of one process
  std::vector<TracedAct> acts;  // with the numbers of the whole job, on that process' clock
};

// Writes the acts of `rings`, which are of `program`'s actors; `process` describes their process, without the lost
// acts. Unavailable if the disk refuses.
absl::Status WriteTracePart(const std::string& path, const pb::Program& program, pb::TraceProcess process,
                            const std::vector<const TraceRing*>& rings);
// NotFound if there is no such file, InvalidArgument if it is none of those above.
absl::StatusOr<TracePart> ReadTracePart(const std::string& path);

// All processes' parts, in order, as one trace on process 0's clock. InvalidArgument if they do not form a job.
absl::StatusOr<Trace> MergeTraceParts(std::vector<TracePart> parts);

}  // namespace oneflow
