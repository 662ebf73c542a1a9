// Why a job does not go on, or not faster: what its processes say of themselves (proto/waits.proto), put together.
//
//   cycle       of some actors each waits for the next, and the last for the first; an actor waits for all that it
//               waits for, so none of them will ever act
//   straggler   what all others wait for, at the end of one chain or another, and which waits for nobody: an act that
//               runs, a device, a message that has not come, a process that does not answer
//   slow rank   all move, but one rank computes nearly all the time and the others wait much of it
//
// Processes are not asked at the same moment. So what moved while it was watched is in no cycle, and a message that has
// been sent and has not come is on its way, or lost.
#pragma once

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "proto/waits.pb.h"

namespace oneflow {

struct Diagnosis {
  std::string cause;               // the cycle, the straggler or the slow rank; a line each, without newline at the end
  std::vector<std::string> ranks;  // what each of them does, one line each
};

// A pure function. Processes that are missing are unknown; those that are silent are named.
Diagnosis Diagnose(absl::Span<const pb::ProcessWaits> processes);

// The cause, then the ranks, with newlines.
std::string DiagnosisText(const Diagnosis& diagnosis);

}  // namespace oneflow
