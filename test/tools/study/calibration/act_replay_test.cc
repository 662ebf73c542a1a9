#include "tools/study/calibration/act_replay.h"

#include <map>

#include "gmock/gmock.h"
#include "oneflow_core/ops/ops.h"
#include "oneflow_core/queues.h"
#include "test/actor/test_plan.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

// relu@0 ──► copy@1 ──► relu@1, a large one; two acts of each in a step, whose registers have one slot and two.
struct Replayed {
  TestPlan plan{{0, 1}, /*micro_batches=*/2};
  OpRegistry ops = StandardOps();
  int small = plan.Actor(0, "small", 2), copy = plan.Actor(1, "copy", 2), large = plan.Actor(1, "large", 2);
  std::vector<ActOrder> order{{small, small}, {copy, large, copy, large}};

  Replayed() {
    plan.plan().mutable_actors(copy)->set_queue(kCommunicationQueue);
    const int x = plan.Register("x", {small}, {{copy}}, 1, 64), y = plan.Register("y", {copy}, {{large}}, 2, 64);
    const int z = plan.Register("z", {large}, {{small}}, 2, 1 << 20, /*initially_filled=*/1);
    plan.Instruct(small, pb::Instruction::COMPUTE, "relu", {x}, {x});
    plan.Copy(copy, {x}, y);
    plan.Instruct(large, pb::Instruction::COMPUTE, "relu", {z}, {z});
  }
};

TEST(ActReplayTest, TimesEveryInstructionOfEveryRank) {
  Replayed job;
  ASSERT_OK_AND_ASSIGN(const Replay replay,
                       ReplayActs(job.plan.set(), 0, job.order, job.ops, {.ranks = {0, 1}, .warmup = 1, .steps = 5}));
  std::map<int, double> seconds;
  for (const TimedInstruction& one : replay.instructions) seconds[one.actor] = one.seconds;
  ASSERT_EQ(seconds.size(), 3u);
  EXPECT_GT(seconds[job.copy], 0);
  EXPECT_GT(seconds[job.large], 20 * seconds[job.small]);  // 2^20 floats beside 64
  ASSERT_EQ(replay.step_factors.size(), 10u);              // of two ranks and five steps
  for (const double factor : replay.step_factors) EXPECT_GT(factor, 0.2);
}

TEST(ActReplayTest, RanksThatAreNotTimedOnlyLendTheirMemory) {
  Replayed job;
  ASSERT_OK_AND_ASSIGN(const Replay replay,
                       ReplayActs(job.plan.set(), 0, job.order, job.ops, {.ranks = {1}, .warmup = 0, .steps = 3}));
  ASSERT_EQ(replay.instructions.size(), 2u);
  EXPECT_EQ(replay.instructions[0].actor, job.copy);
  EXPECT_EQ(replay.instructions[1].actor, job.large);
}

// One rank that cannot go on does not keep the others waiting.
TEST(ActReplayTest, AnErrorNamesWhereItIs) {
  Replayed job;
  job.plan.plan().mutable_actors(job.large)->mutable_instructions(0)->set_op("nothing");
  EXPECT_THAT(ReplayActs(job.plan.set(), 0, job.order, job.ops, {.ranks = {0, 1}}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("actor 'large' on rank 1"), HasSubstr("'nothing'"))));
}

}  // namespace
}  // namespace oneflow
