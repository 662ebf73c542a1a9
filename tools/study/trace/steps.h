// Which part of a trace is looked at: the steps of one plan of which nothing was lost, without the first of a run, in
// which queues have yet to fill.
//
//   run   | step 4 | step 5 | step 6 | step 7 |        steps end one after another; their parts may overlap
//           lost       └──── window ─────────┘
#pragma once

#include <string>
#include <vector>

#include "actor/trace/trace.h"
#include "oneflow_core/status.h"

namespace oneflow {

// From the end of one step to the end of another of the same run; or, if the run has only one whole step, that.
struct TraceWindow {
  int32_t run = 0;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  std::vector<double> step_seconds;  // of its steps
};

struct TraceSteps {
  int32_t plan = 0;
  int64_t seen = 0;                  // steps of the plan of which anything is known
  int64_t whole = 0;                 // of these, without a loss
  std::vector<TraceWindow> windows;  // at most one of a run: its last whole steps

  int64_t num_steps() const;
  double seconds() const;         // of all windows
  double median_seconds() const;  // of a step
};

// Of the plan of that name, or, if it is empty, of the one that acts for longest. NotFound, saying which plans there
// are, if it is none of these; FailedPrecondition if no step is whole.
absl::StatusOr<TraceSteps> FindSteps(const Trace& trace, absl::string_view plan);

}  // namespace oneflow
