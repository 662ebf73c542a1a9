// Credits by what a trace measured: whose times are taken, and what is said of them.
#include "tools/study/planner/credits.h"

#include <algorithm>

#include "compiler/lower/compile.h"
#include "compiler/lower/program.h"
#include "oneflow_core/queues.h"
#include "test/compiler/plan/graph_kit.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

constexpr int64_t kMillisecond = 1'000'000;

// Two stages, four micro-batches, and a trace in which every act takes a millisecond but for one that a busy machine
// made long.
struct Traced {
  pb::PlanSet set;
  Trace trace;

  Traced() {
    const testing::StepShape shape{2, 2, 4};
    set = *CompileBoxed({{testing::TrainingStep(shape), shape.micro_batches}}, testing::OptionsFor(shape),
                        testing::Ops());
    *trace.head.mutable_program() = *ProgramOf(set, std::nullopt, PlanHash(*SerializePlan(set)));
    for (int a = 0; a < trace.head.program().plans(0).actors_size(); ++a) {
      for (int act = 0; act < 5; ++act) {
        TracedAct one;
        one.actor = a;
        one.act = act;
        one.end_ns = act == 2 ? 50 * kMillisecond : kMillisecond;
        trace.acts.push_back(one);
      }
    }
  }

  const pb::ClassPlan& plan() const { return set.plans(0); }
};

TEST(PlanCreditsTest, AnActTakesTheMedianOnTheSlowestRank) {
  Traced traced;
  const std::string slow = traced.trace.head.program().plans(0).actors(0).name();
  for (TracedAct& act : traced.trace.acts) {
    if (act.actor == 0) act.end_ns *= 3;
  }
  ASSERT_OK_AND_ASSIGN(const ActTimes times, MeasuredTimes(traced.set, traced.plan(), traced.trace));
  ASSERT_EQ(times.seconds.size(), static_cast<size_t>(traced.plan().actors_size()));
  for (int a = 0; a < traced.plan().actors_size(); ++a) {
    EXPECT_DOUBLE_EQ(times.seconds[a], traced.plan().actors(a).name() == slow ? 0.003 : 0.001);
  }
}

TEST(PlanCreditsTest, AQueueOfAClassDoesOneThingAtATime) {
  const Traced traced;
  ASSERT_OK_AND_ASSIGN(const ActTimes times, MeasuredTimes(traced.set, traced.plan(), traced.trace));
  for (const std::vector<int>& queue : times.queues) {
    ASSERT_FALSE(queue.empty());
    for (int actor : queue) EXPECT_EQ(traced.plan().actors(actor).queue(), traced.plan().actors(queue[0]).queue());
  }
  // Both stages compute, each on its own.
  EXPECT_GE(std::count_if(times.queues.begin(), times.queues.end(),
                          [&](const auto& queue) { return traced.plan().actors(queue[0]).queue() == kComputeQueue; }),
            2);
}

TEST(PlanCreditsTest, TheTextSaysWhatBoundsAStepAndWhichSlotsItNeeds) {
  const Traced traced;
  ASSERT_OK_AND_ASSIGN(const ActTimes times, MeasuredTimes(traced.set, traced.plan(), traced.trace));
  ASSERT_OK_AND_ASSIGN(const CreditsAnswer answer, AnswerCredits(traced.set, traced.plan(), times));
  EXPECT_THAT(answer.text, AllOf(HasSubstr("plan 'train' with its slots: "), HasSubstr(" ms a step\n"),
                                 HasSubstr("best of all: "), HasSubstr("the fewest slots that reach it")));
}

TEST(PlanCreditsTest, ATraceOfAnotherPlanIsRefused) {
  Traced traced;
  Trace lost = traced.trace;
  lost.acts.erase(lost.acts.begin(), lost.acts.begin() + 5 * (lost.acts.size() / 10));
  EXPECT_THAT(MeasuredTimes(traced.set, traced.plan(), lost),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the trace has no act of actor '")));
  pb::PlanSet other = traced.set;
  other.set_seed(other.seed() + 1);
  EXPECT_THAT(MeasuredTimes(other, other.plans(0), traced.trace),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the trace is of another plan: its sha256 is ")));
  traced.trace.head.mutable_program()->mutable_plans(0)->set_name("other");
  EXPECT_THAT(MeasuredTimes(traced.set, traced.plan(), traced.trace),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the trace has no plan 'train'")));
}

}  // namespace
}  // namespace oneflow
