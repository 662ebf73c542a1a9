// What would change the time of a step: the same plan simulated anew, with one thing other than it is.
#pragma once

#include <string>
#include <vector>

#include "actor/sim/simulator.h"
#include "tools/study/trace/summary.h"

namespace oneflow {

struct Knob {
  std::string what;         // "registers 'h1/out': 2 slots instead of 1"
  double step_seconds = 0;  // median; negative: the plan would come to a stop
};

// Communication at twice its speed, computing a tenth faster, messages and waking up for nothing; and a slot more and a
// slot less for the registers that take most of the critical path, on all ranks at once. `base` is the summary of the
// simulation with these costs. Errors as Simulate(), but for plans that come to a stop.
absl::StatusOr<std::vector<Knob>> TurnKnobs(const pb::Program& program, int64_t steps, const SimulatedCosts& costs,
                                            const TraceSummary& base);

}  // namespace oneflow
