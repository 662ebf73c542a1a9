#include "tools/sim/steady.h"

#include <cstdlib>

namespace oneflow {
namespace {

constexpr int64_t kFewSteps = 3, kManySteps = 8;
constexpr int64_t kAlike = 100'000;  // one part of so many: behind the last step nothing is in its way any more

}  // namespace

absl::StatusOr<Simulation> SimulateSteadily(const pb::Program& program, int plan, int64_t steps,
                                            const SimulatedCosts& costs) {
  if (steps > 0) return Simulate(program, plan, steps, costs);
  {
    OF_ASSIGN_OR_RETURN(Simulation few, Simulate(program, plan, kFewSteps, costs));
    const std::vector<int64_t>& ends = few.step_ends_ns;
    const int64_t second = ends[1] - ends[0], third = ends[2] - ends[1];
    if (std::abs(third - second) <= third / kAlike) return few;
  }
  return Simulate(program, plan, kManySteps, costs);
}

}  // namespace oneflow
