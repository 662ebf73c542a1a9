// Why a job does not go on, or not faster: derived from the waits that its processes report (proto/waits.proto).
//
//   cycle       actors that each wait for the next, and the last for the first; an actor waits for all of its waits, so
//               none of them will ever act
//   straggler   the end of all chains of waits, which itself waits for nobody: a running act, a device, a message that
//               has not come, a process that does not answer
//   slow rank   all move, but one rank computes nearly all the time and the others wait much of it
//
// Processes are not asked at the same moment. So an actor that moved while it was watched is in no cycle, and a message
// that was sent and has not come is on its way, or lost.
#pragma once

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "proto/waits.pb.h"

namespace oneflow {

struct Diagnosis {
  std::string cause;               // the cycle, the straggler or the slow rank; a line each, without newline at the end
  std::vector<std::string> ranks;  // the state of each, one line each
};

// A pure function. Missing processes are unknown; silent ones are named.
Diagnosis Diagnose(absl::Span<const pb::ProcessWaits> processes);

// The cause, then the ranks, with newlines.
std::string DiagnosisText(const Diagnosis& diagnosis);

}  // namespace oneflow
