// Where the time of a rank's step goes: what its compute queue does, and, while it does nothing, what it waits for.
//
//   compute queue   ▓▓ act ▓▓┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄▓▓ act ▓▓
//   who let it               bubble ▓ copy ▓ message             walked back from the act, as a critical path is
//
// Waiting counts for whatever went on at that time on the way to the act that ended it: communication that nothing hid,
// computing somewhere else (a bubble), the host; or nothing: messages, threads that wake up.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tools/study/trace/summary.h"

namespace oneflow {

// In nanoseconds, over all windows; `late` is what an act that was ready did not begin, `rest` what was left of a
// window behind the last act.
struct StepDivision {
  int rank = 0;
  // By what acts are for (ActorPart in proto/program.proto); an act that is for several is shared out among them as the
  // compiler predicts their times.
  std::map<pb::Section, int64_t> work;
  // By the mesh axes that the communication crosses, as text: "dp", "dp, tp"; "" where the plan does not say.
  std::map<std::string, int64_t> exposed;
  int64_t bubble = 0;
  int64_t host = 0;
  int64_t messages = 0;
  int64_t late = 0;
  int64_t rest = 0;

  int64_t computing() const;
  int64_t communication() const;  // exposed, along whatever axes
  int64_t total() const { return computing() + communication() + bubble + host + messages + late + rest; }
};

// Of every rank that computes, by rank.
std::vector<StepDivision> DivideSteps(const Trace& trace, const TraceSteps& steps);

// The rank that has most of the critical path.
int CriticalRank(const Trace& trace, const TraceSummary& summary);

// Its rows of a table, in milliseconds per step; without those that are 0, but for bubble and host.
std::string DivisionText(const StepDivision& division, const TraceSteps& steps);

}  // namespace oneflow
