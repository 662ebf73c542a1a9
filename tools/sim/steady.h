// Simulates as many steps as it takes until they take equally long.
#pragma once

#include "actor/sim/simulator.h"

namespace oneflow {

// As Simulate(). No steps: three, if the second and the third take equally long to one part in 100,000; else eight, for
// queues to fill and some more. REQUIRES: costs are the same in every step.
absl::StatusOr<Simulation> SimulateSteadily(const pb::Program& program, int plan, int64_t steps,
                                            const SimulatedCosts& costs);

}  // namespace oneflow
