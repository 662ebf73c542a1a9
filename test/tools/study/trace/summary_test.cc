#include "tools/study/trace/summary.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "oneflow_core/queues.h"
#include "test/actor/trace/played.h"
#include "test/support/status_matchers.h"
#include "tools/study/trace/compare.h"

namespace oneflow {
namespace {

// Acts of so many microseconds, by actor.
Timing Lasting(std::vector<int64_t> us, int64_t message_us = 0) {
  return {.act_ns = [us = std::move(us)](int actor, int64_t) { return 1000 * us[actor]; },
          .message_ns = 1000 * message_us};
}

Trace PlayPipeline(const std::vector<int64_t>& us, int64_t message_us, int slots, int64_t steps) {
  TestPlan plan = testing::Pipeline(static_cast<int>(us.size()), slots);
  return Player(plan.set(), Lasting(us, message_us)).Play(steps).trace;
}

double Part(int64_t part, int64_t whole) { return static_cast<double>(part) / static_cast<double>(whole); }

TEST(TraceSummaryTest, ASlowStageBoundsAPipelineThroughItsQueue) {
  const Trace trace = PlayPipeline({10, 40, 20}, 0, 2, 50);
  ASSERT_OK_AND_ASSIGN(const TraceSummary summary, Summarize(trace, ""));
  EXPECT_EQ(summary.steps.whole, 50);
  EXPECT_EQ(summary.steps.num_steps(), 49);
  EXPECT_NEAR(summary.steps.median_seconds(), 40e-6, 1e-12);
  ASSERT_NE(summary.bottleneck(), nullptr);
  EXPECT_EQ(EdgeText(trace, 0, *summary.bottleneck()), "queue 'compute' of rank 1: 'stage1', then 'stage1'");
  EXPECT_GT(Part(summary.path.actors.at(1), summary.path.total), 0.95);
  ASSERT_EQ(summary.queues.size(), 3u);
  const auto& [first, slow, last] = std::tie(summary.queues[0], summary.queues[1], summary.queues[2]);
  EXPECT_NEAR(Part(slow.total_busy(), slow.total()), 1, 0.02);  // but for the end, when only the last stage acts
  EXPECT_NEAR(Part(first.total_busy(), first.total()), 0.25, 0.02);
  EXPECT_NEAR(Part(first.waited(pb::FREED), first.total()), 0.7, 0.06);  // its slots are full
  EXPECT_EQ(first.waited(pb::FILLED), 0);
  EXPECT_NEAR(Part(last.total_busy(), last.total()), 0.5, 0.02);
  EXPECT_NEAR(Part(last.waited(pb::FILLED), last.total()), 0.5, 0.02);
  EXPECT_EQ(last.waited(pb::FREED), 0);
}

TEST(TraceSummaryTest, WithOneSlotWhoFreesItIsTheBottleneck) {
  // stage0 fills the only slot, stage1 must be done with it: 30 + 50 us in turn, a message of 7 us each way.
  const Trace trace = PlayPipeline({30, 50}, 7, 1, 200);
  ASSERT_OK_AND_ASSIGN(const TraceSummary summary, Summarize(trace, ""));
  EXPECT_NEAR(summary.steps.median_seconds(), 94e-6, 1e-12);
  EXPECT_EQ(EdgeText(trace, 0, *summary.bottleneck()),
            "slot of register 'out0' freed by 'stage1' on rank 1 for 'stage0' on rank 0");
  EXPECT_NEAR(Part(summary.path.on_the_way, summary.path.total), 14.0 / 94, 0.01);
  EXPECT_NEAR(Part(summary.queues[0].waited(pb::FREED), summary.queues[0].total()), 64.0 / 94, 0.01);
  EXPECT_NEAR(Part(summary.queues[1].waited(pb::FILLED), summary.queues[1].total()), 44.0 / 94, 0.01);
}

// A loop: forward on rank 0, a slow copy to rank 1, an update there that rank 0 needs for its next step.
TEST(TraceSummaryTest, ASlowTransferIsNamedByItsRegister) {
  TestPlan plan({0, 0});
  const int forward = plan.Actor(0, "forward.2"), copy = plan.Actor(1, "boxing.3"), update = plan.Actor(0, "update");
  plan.Register("h1/out", {forward}, {{copy}}, 1);
  plan.Register("h1/boxed", {copy}, {{update}}, 1);
  plan.Register("w", {update}, {{forward}}, 1, 4, /*initially_filled=*/1);
  const Trace trace = Player(plan.set(), Lasting({20, 25, 5}, 30)).Play(200).trace;
  ASSERT_OK_AND_ASSIGN(const TraceSummary summary, Summarize(trace, "p"));
  EXPECT_NEAR(summary.steps.median_seconds(), 110e-6, 1e-12);
  // 25 + 30 to the update, 20 + 30 to the copy
  EXPECT_EQ(EdgeText(trace, 0, *summary.bottleneck()),
            "register 'h1/boxed' from 'boxing.3' on rank 1 to 'update' on rank 0");
  const CriticalPath::EdgeTime& there =
      summary.path.edges.at({.cause = pb::FILLED, .register_id = 0, .from = forward, .to = copy});
  EXPECT_NEAR(Part(there.total, summary.path.total), 50.0 / 110, 0.01);
  EXPECT_NEAR(Part(there.on_the_way, there.total), 30.0 / 50, 0.01);
  int64_t edges = 0;
  for (const auto& [edge, time] : summary.path.edges) edges += time.total;
  EXPECT_NEAR(Part(edges, summary.path.total), 1, 0.01);  // all but the last act
}

TEST(TraceSummaryTest, TellsAWaitForTheQueueFromAWaitForData) {
  // Two actors of one rank are ready at once; 'b' has to wait for its turn on the queue.
  TestPlan plan({0, 0});
  const int source = plan.Actor(0, "source"), a = plan.Actor(1, "a"), b = plan.Actor(1, "b");
  plan.Register("x", {source}, {{a}, {b}}, 1);
  const Trace trace = Player(plan.set(), Lasting({40, 10, 10})).Play(20).trace;
  ASSERT_OK_AND_ASSIGN(const TraceSummary summary, Summarize(trace, ""));
  const QueueUse& use = summary.queues[1];
  EXPECT_NEAR(Part(use.total_busy(), use.total()), 20.0 / 60, 0.01);
  EXPECT_NEAR(Part(use.contended, use.total()), 10.0 / 60, 0.01);  // while 'a' ran, 'b' was ready
  EXPECT_NEAR(Part(use.waits.at({pb::FILLED, 0, a}), use.total()), 40.0 / 60, 0.01);
  EXPECT_EQ(use.waits.count({pb::FILLED, 0, b}), 0u);
  EXPECT_GT(summary.path.edges.at({.cause = pb::START, .register_id = -1, .from = a, .to = b}).total, 0);
  EXPECT_EQ(use.total(), summary.queues[0].total());
}

TEST(TraceSummaryTest, WhatAnotherQueueHidesIsNotOnTheCriticalPath) {
  // Two halves of a backward pass; the first's gradient is reduced while the second runs.
  for (const int64_t reduce_us : {20, 70}) {
    TestPlan plan({0});
    const int first = plan.Actor(0, "first"), second = plan.Actor(0, "second"), reduce = plan.Actor(0, "reduce"),
              update = plan.Actor(0, "update");
    plan.plan().mutable_actors(reduce)->set_queue(kCommunicationQueue);
    plan.Register("x", {first}, {{second}}, 1);
    plan.Register("gradient", {first}, {{reduce}}, 1);
    plan.Register("other", {second}, {{update}}, 1);
    plan.Register("sum", {reduce}, {{update}}, 1);
    plan.Register("w", {update}, {{first}}, 1, 4, /*initially_filled=*/1);
    const Trace trace = Player(plan.set(), Lasting({30, 50, reduce_us, 10})).Play(50).trace;
    ASSERT_OK_AND_ASSIGN(const TraceSummary summary, Summarize(trace, ""));
    ASSERT_EQ(summary.queues.size(), 2u);
    if (reduce_us == 20) {
      EXPECT_NEAR(summary.steps.median_seconds(), 90e-6, 1e-12);
      EXPECT_EQ(summary.path.actors.count(reduce), 0u);
      EXPECT_THAT(SummaryText(trace, summary, {}), HasSubstr("critical path: 100.0% compute, 0.0% on the way"));
    } else {
      EXPECT_NEAR(summary.steps.median_seconds(), 110e-6, 1e-12);
      EXPECT_EQ(EdgeText(trace, 0, *summary.bottleneck()),
                "register 'sum' from 'reduce' on rank 0 to 'update' on rank 0");
      EXPECT_THAT(SummaryText(trace, summary, {}),
                  HasSubstr("critical path: 36.4% compute, 63.6% communication, 0.0% on the way"));
      EXPECT_NEAR(Part(summary.queues[0].waited(pb::FILLED), summary.queues[0].total()), 20.0 / 110, 0.01);
    }
  }
}

TEST(TraceSummaryTest, LooksAtWholeStepsOnly) {
  Trace trace = PlayPipeline({10, 10}, 0, 2, 10);
  std::erase_if(trace.acts, [](const TracedAct& act) { return act.step < 3 && act.actor == 0; });
  ASSERT_OK_AND_ASSIGN(const TraceSummary summary, Summarize(trace, ""));
  EXPECT_EQ(summary.steps.seen, 10);
  EXPECT_EQ(summary.steps.whole, 7);
  EXPECT_EQ(summary.steps.num_steps(), 6);
  std::erase_if(trace.acts, [](const TracedAct& act) { return act.actor == 0; });
  EXPECT_THAT(Summarize(trace, ""), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no step of plan 'p'")));
  EXPECT_THAT(Summarize(trace, "q"), StatusIs(absl::StatusCode::kNotFound, "there is no plan 'q'; there are: p"));
}

TEST(TraceSummaryTest, OneStepIsAWindowOfItsOwn) {
  ASSERT_OK_AND_ASSIGN(const TraceSummary summary, Summarize(PlayPipeline({10, 30}, 5, 2, 1), ""));
  EXPECT_EQ(summary.steps.num_steps(), 1);
  EXPECT_NEAR(summary.steps.median_seconds(), 45e-6, 1e-12);
  EXPECT_EQ(summary.path.total, 45'000);
}

TEST(TraceSummaryTest, ReadsAsText) {
  const Trace trace = PlayPipeline({30, 50}, 7, 1, 200);
  ASSERT_OK_AND_ASSIGN(const TraceSummary summary, Summarize(trace, ""));
  EXPECT_THAT(
      SummaryText(trace, summary, {}),
      AllOf(HasSubstr("job 'test', plan 'p': 2 actors on 2 ranks"), HasSubstr("step: 0.094 ms median"),
            HasSubstr("bottleneck: slot of register 'out0' freed by 'stage1' on rank 1 for 'stage0' on rank 0: "
                      "0.057 ms of a step"),
            HasSubstr("critical path: 85.1% compute, 14.9% on the way\n"), HasSubstr("rank 0 compute"),
            HasSubstr("busy with 'stage1'"), HasSubstr("waits for a free slot of register 'out0', for 'stage0'"),
            HasSubstr("waits for register 'out0' from 'stage0' on rank 0, for 'stage1'")));
  EXPECT_THAT(SummaryText(trace, summary, {.rank = 1}),
              AllOf(HasSubstr("rank 1 compute"), Not(HasSubstr("rank 0 compute"))));
}

TEST(TraceSummaryTest, OfManyQueuesTheBusiestAreShown) {
  std::vector<int64_t> us(40, 10);
  us[33] = 50;
  const Trace trace = PlayPipeline(us, 0, 2, 60);
  ASSERT_OK_AND_ASSIGN(const TraceSummary summary, Summarize(trace, ""));
  EXPECT_EQ(summary.queues.size(), 40u);
  const std::string text = SummaryText(trace, summary, {.rows = 2});
  EXPECT_THAT(text, AllOf(HasSubstr("rank 33 compute"), HasSubstr("(the 4 busiest of 40;")));
}

TEST(TraceComparisonTest, FindsWhichActorsDiffer) {
  const Trace a = PlayPipeline({10, 40, 20}, 0, 2, 20), b = PlayPipeline({10, 60, 21}, 0, 2, 20);
  ASSERT_OK_AND_ASSIGN(const TraceSummary of_a, Summarize(a, ""));
  ASSERT_OK_AND_ASSIGN(const TraceSummary of_b, Summarize(b, ""));
  ASSERT_OK_AND_ASSIGN(const TraceComparison compared, CompareTraces(a, of_a, b, of_b));
  EXPECT_EQ(compared.sameness, TraceComparison::Sameness::kEdge);
  EXPECT_NEAR(compared.step_seconds[1] - compared.step_seconds[0], 20e-6, 1e-12);
  ASSERT_EQ(compared.actors.size(), 3u);
  EXPECT_EQ(compared.actors[0].actor, 1);
  EXPECT_THAT(compared.actors[0].difference(), DoubleNear(20e-6, 1e-12));
  EXPECT_EQ(compared.actors[2].difference(), 0);
  EXPECT_NEAR(compared.median_deviation, 0.05, 1e-9);  // of 0, 0.5 and 0.05
  EXPECT_THAT(ComparisonText(a, compared, 8), AllOf(HasSubstr("step: 0.040 ms and 0.060 ms median (+50.0%)"),
                                                    HasSubstr("and: the same"), HasSubstr("'stage1' on rank 1")));
}

TEST(TraceComparisonTest, SaysWhenBottlenecksDiffer) {
  const Trace a = PlayPipeline({10, 40, 20}, 0, 2, 20), b = PlayPipeline({10, 40, 60}, 0, 2, 20);
  ASSERT_OK_AND_ASSIGN(const TraceSummary of_a, Summarize(a, ""));
  ASSERT_OK_AND_ASSIGN(const TraceSummary of_b, Summarize(b, ""));
  ASSERT_OK_AND_ASSIGN(const TraceComparison compared, CompareTraces(a, of_a, b, of_b));
  EXPECT_FALSE(compared.same_bottleneck());
  EXPECT_THAT(ComparisonText(a, compared, 8), HasSubstr("and: queue 'compute' of rank 2"));
}

// Of two copies that feed one update, now the one is the last to come, now the other.
TEST(TraceComparisonTest, SaysWhatStepsLeaveOpen) {
  TestPlan plan({0, 0});
  const int update = plan.Actor(0, "update"), left = plan.Actor(1, "left"), right = plan.Actor(0, "right");
  plan.plan().mutable_actors(right)->set_queue(kCommunicationQueue);
  plan.Register("w", {update}, {{left}, {right}}, 1, 4, /*initially_filled=*/1);
  plan.Register("l", {left}, {{update}}, 1);
  plan.Register("r", {right}, {{update}}, 1);
  const auto play = [&](int64_t left_us, int64_t right_us, int64_t more_us) {
    const auto ns = [=](int actor, int64_t act) -> int64_t {
      if (actor == update) return 5'000;
      const int64_t more = (act % 2 == 0) == (actor == left) ? more_us : 0;
      return 1000 * ((actor == left ? left_us : right_us) + more);
    };
    return Player(plan.set(), {.act_ns = ns}).Play(41).trace;
  };
  const auto compare = [&](const Trace& a, const Trace& b) -> TraceComparison {
    const absl::StatusOr<TraceSummary> of_a = Summarize(a, ""), of_b = Summarize(b, "");
    EXPECT_OK(of_a.status());
    EXPECT_OK(of_b.status());
    const absl::StatusOr<TraceComparison> compared = CompareTraces(a, *of_a, b, *of_b);
    EXPECT_OK(compared.status());
    return *compared;
  };
  const Trace open = play(30, 30, 4), steady = play(30, 20, 0), other = play(20, 30, 0);
  // In half of the steps the left one was the last, in half of them the right one.
  using Sameness = TraceComparison::Sameness;
  const TraceComparison left_last = compare(open, steady), right_last = compare(open, other);
  EXPECT_THAT((std::vector{left_last.sameness, right_last.sameness}),
              UnorderedElementsAre(Sameness::kEdge, Sameness::kNoise));
  EXPECT_THAT(ComparisonText(open, left_last, 3) + ComparisonText(open, right_last, 3),
              HasSubstr("which steps leave open (+-"));
  EXPECT_FALSE(compare(steady, other).same_bottleneck());
}

TEST(TraceComparisonTest, RefusesDifferentPlans) {
  const Trace a = PlayPipeline({10, 40}, 0, 2, 5);
  Trace b = a;
  b.head.mutable_program()->set_plan_hash("other");
  ASSERT_OK_AND_ASSIGN(const TraceSummary of_a, Summarize(a, ""));
  EXPECT_THAT(CompareTraces(a, of_a, b, of_a),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("of different plans: sha256  and other")));
}

}  // namespace
}  // namespace oneflow
