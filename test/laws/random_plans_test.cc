// The law of liveness: of random plans, the proof on the wait graph, a play of one step with counters, the simulator
// and actor threads say the same of every one, live or dead; and where a credit or the order of two acts is taken away
// that a plan needs, all stop at the same acts, which lie on a circle of waits through what was changed, or behind one.
//
// ONEFLOW_RANDOM_PLANS says how many plans, ONEFLOW_RANDOM_SEED which is the first. What random plans have is decided
// in random_pipeline.h: whoever gives plans a new reason to wait draws it there. Acts that happen together (calls of
// devices that send) are not played by threads turn by turn: on a thread they are launches, and what waits is the
// device.
#include <iostream>
#include <random>

#include "compiler/lower/compile.h"
#include "proto/plan.pb.h"
#include "test/laws/mutable_plan.h"
#include "test/laws/random_model.h"
#include "test/laws/random_pipeline.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

using testing::MutablePlan;
using testing::Seen;
using testing::TakeEachAway;

// Slots as credits have them, or any; orders as the schedule has them, or with acts exchanged.
void Draw(MutablePlan& plan, std::mt19937& random) {
  if (random() % 2 == 0) {
    for (int r = 0; r < plan.num_registers(); ++r) {
      if (plan.filled(r) == 0) plan.SetSlots(r, 1 + static_cast<int>(random() % 4));
    }
  }
  if (plan.num_orders() == 0 || random() % 3 > 0) return;
  const int order = static_cast<int>(random() % plan.num_orders());
  for (int swaps = static_cast<int>(random() % 3); swaps >= 0 && plan.length(order) > 1; --swaps)
    plan.Swap(order, static_cast<int>(random() % (plan.length(order) - 1)));
}

TEST(RandomPlansTest, ProofPlaySimulatorAndThreadsAgreeOnWhatIsLiveAndWhatIsNeeded) {
  const int count = FromEnvironment("ONEFLOW_RANDOM_PLANS", 150);
  const uint32_t first = FromEnvironment("ONEFLOW_RANDOM_SEED", 1);
  Seen seen;
  for (uint32_t seed = first; seen.live + seen.dead < count && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("ONEFLOW_RANDOM_SEED=", seed));
    std::mt19937 random(seed);
    const RandomJob job = MakeRandomPipeline(seed, random() % 3 == 0 ? DeviceKind::kCuda : DeviceKind::kCpu);
    absl::StatusOr<pb::PlanSet> set =
        CompileBoxed({{job.graph, job.options.micro_batches}}, job.options, testing::Ops());
    if (set.status().code() == absl::StatusCode::kUnimplemented) continue;  // a boxing of several steps
    ASSERT_OK(set);
    MutablePlan plan(*std::move(set));
    Draw(plan, random);
    const bool live = plan.IsLive(seed);
    ++(live ? seen.live : seen.dead);
    if (live && plan.stricter() == 0) TakeEachAway(plan, seed, seen);
    seen.stricter += plan.stricter();
  }
  RecordProperty("live", seen.live);
  RecordProperty("dead", seen.dead);
  std::cout << seen.live << " live and " << seen.dead << " dead plans; of " << seen.credits << " credits "
            << seen.needed_credits << " were needed, of " << seen.turns << " turns " << seen.needed_turns << "; "
            << seen.stricter << " times the proof on classes was stricter\n";
  EXPECT_GT(seen.live, count / 2);
  EXPECT_GT(seen.dead, count / 20);
  EXPECT_GT(seen.needed_credits, count / 2);
  EXPECT_GT(seen.needed_turns, count);
}

}  // namespace
}  // namespace oneflow
