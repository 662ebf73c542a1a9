// The simulator plays state machines on a clock; the compiler plays tokens. They share no code, and agree about which
// plans come to a stop.
#include "actor/sim/simulator.h"
#include "gtest/gtest.h"
#include "test/actor/sim/random_plan.h"
#include "test/support/spelled_out.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

TEST(SimulatorLawTest, TokenPlayAndSimulatorAgreeAboutWhatIsLive) {
  int live = 0, dead = 0;
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    TestPlan plan = RandomPlan(seed, /*ranks=*/3);
    ASSERT_OK_AND_ASSIGN(const WaitGraph graph, WaitGraphOf(plan.plan()));
    ASSERT_OK(CheckRates(graph)) << "seed " << seed;
    const absl::Status tokens = SimulateStep(graph);
    SimulatedCosts costs;
    costs.act = [seed](int32_t actor, int64_t act) { return ActCost{.ns = (seed + actor * 7 + act * 3) % 11}; };
    costs.message_ns = [seed](int32_t from, int64_t act, int32_t to, int32_t) {
      return (seed + from + act + 5 * to) % 4;
    };
    const absl::Status simulated = Simulate(plan.set(), 0, 3, costs).status();
    ASSERT_EQ(tokens.ok(), simulated.ok()) << "seed " << seed << "\n" << tokens << "\n" << simulated;
    ++(tokens.ok() ? live : dead);
  }
  EXPECT_GT(live, 500);
  EXPECT_GT(dead, 500);
}

}  // namespace
}  // namespace oneflow
