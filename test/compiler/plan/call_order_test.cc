#include "compiler/plan/call_order.h"

#include "compiler/lower/compile.h"
#include "compiler/lower/plan_text.h"
#include "compiler/lower/program_text.h"
#include "compiler/lower/wait_graph.h"
#include "gmock/gmock.h"
#include "oneflow_core/zones.h"
#include "test/compiler/plan/graph_kit.h"
#include "test/support/spelled_out.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

absl::StatusOr<pb::PlanSet> CudaPlan(const StepShape& shape) {
  CompileOptions options = OptionsFor(shape);
  options.device = DeviceKind::kCuda;
  return CompileBoxed({{TrainingStep(shape), shape.micro_batches}}, options, testing::Ops());
}

TEST(CallOrderTest, NoRankReadsAnothersMemory) {
  for (const StepShape& shape : {StepShape{1, 2, 1}, StepShape{2, 2, 4}, StepShape{4, 1, 8}, StepShape{3, 3, 6}}) {
    ASSERT_OK_AND_ASSIGN(const pb::PlanSet set, CudaPlan(shape));
    const pb::Program program = SpelledOut(set);
    const pb::Plan& plan = program.plans(0);
    for (const pb::Register& reg : plan.registers()) {
      for (int consumer : reg.consumers()) {
        EXPECT_EQ(plan.actors(consumer).rank(), plan.actors(reg.producer()).rank()) << reg.name();
      }
    }
    for (const pb::Rank& rank : program.ranks()) EXPECT_EQ(BytesOfZone(rank, kSharedZone), 0);
    EXPECT_OK(CheckPlanLive(set.plans(0)));
    EXPECT_OK(CheckSpelledOutLive(plan));
  }
}

TEST(CallOrderTest, APipelinesRanksAlternateBetweenForwardAndBackward) {
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet set, CudaPlan({2, 1, 4}));
  const pb::ClassPlan& plan = set.plans(0);
  ASSERT_EQ(plan.orders_size(), 2);
  std::vector<std::string> first, last;
  for (int id : plan.orders(0).actors()) first.push_back(plan.actors(id).instructions(0).node());
  for (int id : plan.orders(1).actors()) last.push_back(plan.actors(id).instructions(0).node());
  EXPECT_EQ(first, last) << "the only peers make all their calls with each other";
  EXPECT_THAT(first, ElementsAre("s1/receive", "s1/receive", "s1/send_grad", "s1/receive", "s1/send_grad", "s1/receive",
                                 "s1/send_grad", "s1/send_grad"));
}

TEST(CallOrderTest, AnExchangedOrderOnOneRankIsRefusedWithTheCycle) {
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet set, CudaPlan({1, 2, 1}));
  pb::Plan plan = SpelledOut(set).plans(0);
  auto& order = *plan.mutable_orders(1)->mutable_actors();
  ASSERT_EQ(order.size(), 2) << "reduce-scatter, all-gather";
  order.SwapElements(0, 1);
  const absl::Status status = CheckSpelledOutLive(plan);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("deadlock: '")));
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("s0/scatter@1")));
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("its turn")));
}

// Every neighbouring pair exchanged on one rank of two, in turn: each is a plan whose members disagree on the order of
// one communicator's calls.
TEST(CallOrderTest, EveryExchangeInAPipelinesOrderIsRefused) {
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet set, CudaPlan({2, 1, 4}));
  const pb::ClassPlan& good = set.plans(0);
  int mutants = 0;
  for (int i = 0; i + 1 < good.orders(0).actors_size(); ++i) {
    if (good.orders(0).actors(i) == good.orders(0).actors(i + 1)) continue;
    pb::ClassPlan plan = good;
    plan.mutable_orders(0)->mutable_actors()->SwapElements(i, i + 1);
    EXPECT_THAT(CheckPlanLive(plan), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("deadlock"))) << i;
    ++mutants;
  }
  EXPECT_GE(mutants, 4);
}

TEST(CallOrderTest, AnActorIsOrderedOncePerAct) {
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet set, CudaPlan({1, 2, 1}));
  pb::ClassPlan plan = set.plans(0);
  plan.mutable_orders(0)->add_actors(plan.orders(0).actors(0));
  EXPECT_THAT(CheckPlanLive(plan), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ordered 2 times")));
}

TEST(CallOrderTest, PlanShowPrintsCollectivesAndTheirOrder) {
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet set, CudaPlan({2, 2, 2}));
  ASSERT_OK_AND_ASSIGN(const std::string plan, PlanText(set));
  EXPECT_THAT(plan, HasSubstr("orders\n    class 0 communication: a"));
  const std::string text = ProgramText(SpelledOut(set));
  EXPECT_THAT(text, HasSubstr("communicator 0: ranks ["));
  EXPECT_THAT(text, HasSubstr(" reduce-scatter communicator="));
  EXPECT_THAT(text, HasSubstr(" exchange communicator="));
  EXPECT_THAT(text, HasSubstr("orders\n    rank 0 communication: a"));
}

// Both could be called at once, and the queue does one thing at a time.
TEST(CallOrderTest, TheMostUrgentCallComesFirst) {
  WaitGraph graph;
  graph.actors = {{"gradient", 1}, {"activation", 1}, {"reader", 1}};
  graph.registers = {{"g", {0, 1}, {{2, 1}}, 1, 0}, {"a", {1, 1}, {{2, 1}}, 1, 0}};
  for (const auto& [of_gradient, of_activation] : {std::pair(1, 5), {5, 1}, {3, 3}}) {
    const std::vector<ActorLoad> loads = {{.classes = {0}, .priority = of_gradient, .calls = true},
                                          {.classes = {0}, .priority = of_activation, .calls = true},
                                          {.classes = {0}, .queue = 1}};
    ASSERT_OK_AND_ASSIGN(const auto orders, OrderCalls(graph, loads, /*num_classes=*/1));
    const bool activation_first = of_activation > of_gradient;
    EXPECT_THAT(orders, ElementsAre(activation_first ? ElementsAre(1, 0) : ElementsAre(0, 1)));
  }
}

}  // namespace
}  // namespace oneflow
