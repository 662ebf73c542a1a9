// Costs, measured and predicted, and what is told of a simulated step.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "oneflow_core/ops/ops.h"
#include "oneflow_core/queues.h"
#include "test/actor/test_plan.h"
#include "test/support/status_matchers.h"
#include "tools/study/sim/knobs.h"
#include "tools/study/sim/measured_costs.h"
#include "tools/study/sim/op_work.h"
#include "tools/study/sim/predicted_costs.h"
#include "tools/study/trace/step_division.h"

namespace oneflow {
namespace {

// work@0 ──► copy@1 (on the communication queue) ──► work@1
TestPlan Transfer(int slots) {
  TestPlan plan({0, 1});
  const int work = plan.Actor(0, "work"), copy = plan.Actor(1, "copy"), after = plan.Actor(1, "after");
  plan.plan().mutable_actors(copy)->set_queue(kCommunicationQueue);
  plan.Register("out", {work}, {{copy}}, slots);
  plan.Register("boxed", {copy}, {{after}}, slots);
  plan.set().set_plan_hash("abc");
  return plan;
}

// Acts of so many microseconds, one more in every step; and costs of all else that no two have alike.
SimulatedCosts Uneven(std::vector<int64_t> us) {
  SimulatedCosts costs;
  costs.act = [us](int32_t actor, int64_t act) { return ActCost{.ns = 1000 * (us[actor] + act)}; };
  costs.message_ns = [](int32_t from, int64_t act, int32_t, int32_t) { return 100 + 10 * from + act; };
  costs.wake_ns = [](int32_t actor, int64_t act) { return 50 + 10 * actor + act; };
  costs.pause_ns = [](int32_t actor, int64_t act) { return 20 + actor + act; };
  return costs;
}

TEST(MeasuredCostsTest, PlayARunAgainAsItWas) {
  for (const int slots : {1, 2}) {
    TestPlan plan = Transfer(slots);
    ASSERT_OK_AND_ASSIGN(const Simulation run, Simulate(plan.set(), 0, 12, Uneven({30, 20, 10})));
    ASSERT_OK_AND_ASSIGN(const TraceSteps steps, FindSteps(run.trace, ""));
    ASSERT_OK_AND_ASSIGN(const MeasuredCosts costs, MeasuredCosts::Of(run.trace, steps, plan.set()));
    ASSERT_GE(costs.num_steps(), 9);
    const int64_t played = costs.num_steps();
    ASSERT_OK_AND_ASSIGN(const Simulation again, Simulate(plan.set(), 0, played, costs.Costs()));
    // The last steps of the run are played last; what the first did not leave behind has gone by then.
    for (int64_t back = 0; back < 4; ++back) {
      const auto step_ns = [&](const Simulation& s, int64_t steps) {
        return s.step_ends_ns[steps - 1 - back] - s.step_ends_ns[steps - 2 - back];
      };
      EXPECT_EQ(step_ns(again, played), step_ns(run, 12)) << slots << " slots, " << back << " steps before the last";
    }
  }
}

TEST(MeasuredCostsTest, RefuseATraceOfAnotherPlan) {
  TestPlan plan = Transfer(1);
  ASSERT_OK_AND_ASSIGN(const Simulation run, Simulate(plan.set(), 0, 3, Uneven({30, 20, 10})));
  ASSERT_OK_AND_ASSIGN(const TraceSteps steps, FindSteps(run.trace, ""));
  plan.set().set_plan_hash("def");
  EXPECT_THAT(MeasuredCosts::Of(run.trace, steps, plan.set()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("its sha256 is abc, this one's is def")));
}

TEST(PredictedCostsTest, AreARoofline) {
  TestPlan plan({0, 1});
  const int work = plan.Actor(0, "work"), copy = plan.Actor(1, "copy");
  plan.plan().mutable_actors(copy)->set_queue(kCommunicationQueue);
  const int x = plan.Register("x", {work}, {{copy}}, 1, 1000), y = plan.Register("y", {copy}, {}, 1, 1000);
  plan.Instruct(work, pb::Instruction::COMPUTE, "relu", {x}, {x});
  plan.Copy(copy, {x}, y);
  DeviceSpeeds device;
  device.memory_bytes_per_s = 1e9;
  device.act_s = 3e-6;
  device.same_host = {5e-6, 2e-9};
  const OpRegistry ops = StandardOps();
  const PredictedCosts predicted(plan.set(), 0, OneHost(2, 1, device), ops);
  const SimulatedCosts costs = predicted.Costs();
  EXPECT_EQ(costs.act(work, 0).ns, 8'000);                   // reads and writes 4000 bytes
  EXPECT_EQ(costs.act(copy, 7).ns, 3'000 + 13'000 + 8'000);  // alpha + 4000 beta
  EXPECT_EQ(costs.message_ns(work, 0, copy, 0), 5'000);
}

absl::StatusOr<std::vector<TensorType>> InferCounted(const InferContext& c) {
  return std::vector<TensorType>{c.inputs[0]};
}
double FlopsOfCounted(absl::Span<const TensorType> in, absl::Span<const TensorType>, const AttrMap&) {
  return 100 * static_cast<double>(in[0].shape.count());
}

// A function that reads x of 4000 bytes, changes a state of 40 in place and writes 4000 bytes.
TEST(PredictedCostsTest, ACallTakesWhatItsOperandsTakeToTheHost) {
  TestPlan plan({0});
  const int call = plan.Actor(0, "call");
  plan.plan().mutable_actors(call)->set_queue(kHostQueue);
  const int x = plan.Register("x", {call}, {}, 1, 1000), state = plan.Register("state", {call}, {}, 1, 10);
  const int y = plan.Register("y", {call}, {}, 1, 1000);
  plan.Instruct(call, pb::Instruction::CALL, "counted", {x, state}, {y});
  OpRegistry ops = StandardOps();
  ops.Add({.name = "counted", .kind = OpKind::kCall, .infer = InferCounted, .flops = FlopsOfCounted, .mutates = {1}});
  DeviceSpeeds device;
  device.memory_bytes_per_s = 1e9;
  device.f32_flops = 1e12;
  const auto ns = [&] { return PredictedCosts(plan.set(), 0, OneHost(1, 1, device), ops).Costs().act(call, 0).ns; };
  EXPECT_EQ(ns(), 4000 + 2 * 40 + 4000) << "longer than 100,000 flops";
  device.f32_flops = 1e9;
  EXPECT_EQ(ns(), 100'000);
  device.device = DeviceKind::kCuda;
  EXPECT_NEAR(static_cast<double>(ns()), (4000 + 2 * 40 + 4000) / 25.0, 1) << "over PCIe, at 25 bytes a nanosecond";
}

TEST(PredictedCostsTest, WhoOnlyReceivesWaitsAsLongAsWhoSends) {
  TestPlan plan({0, 1});
  const int sender = plan.Actor(0, "sender"), receiver = plan.Actor(1, "receiver");
  const int x = plan.Register("x", {sender}, {}, 1, 1000), y = plan.Register("y", {receiver}, {}, 1, 1000);
  plan.set().add_communicators()->add_ranks(0);
  plan.set().mutable_communicators(0)->add_ranks(1);
  for (const int actor : {sender, receiver}) {
    const std::vector<int> reads = actor == sender ? std::vector<int>{x} : std::vector<int>{};
    const std::vector<int> writes = actor == sender ? std::vector<int>{} : std::vector<int>{y};
    pb::Instruction& call = *plan.Instruct(actor, pb::Instruction::COLLECTIVE, "boxing", reads, writes);
    call.set_collective("exchange");
    pb::Transfer& transfer = *call.add_transfers();
    transfer.set_peer(actor == sender ? 1 : 0);
    (actor == sender ? transfer.set_send_count(1000) : transfer.set_receive_count(1000));
  }
  DeviceSpeeds device;
  device.same_host = {2e-6, 1e-9};
  const OpRegistry ops = StandardOps();
  const PredictedCosts predicted(plan.set(), 0, OneHost(2, 1, device), ops);
  const SimulatedCosts costs = predicted.Costs();
  EXPECT_EQ(costs.act(receiver, 0).ns, costs.act(sender, 0).ns);
  EXPECT_NEAR(costs.act(receiver, 0).ns, 1e9 * (device.act_s + 2e-6 + 4000 * 1e-9), 1);
}

TEST(PredictedCostsTest, SmallKernelsDoNotReachFullSpeed) {
  TestPlan plan({0});
  const int work = plan.Actor(0, "work");
  const int x = plan.Register("x", {work}, {}, 1, 1000);
  plan.Instruct(work, pb::Instruction::COMPUTE, "square_sum", {x}, {x});
  const OpRegistry ops = StandardOps();
  const OpWork known = WorkOf(plan.plan().actors(work).instructions(0), ops);
  ASSERT_GT(known.flops, 0);
  DeviceSpeeds device;
  device.f32_flops = known.flops / 10e-6;
  device.memory_bytes_per_s = known.bytes / 8e-6;
  device.product_efficiency = {{0, 0.5}, {known.flops, 0.8}, {2 * known.flops, 1}};
  device.memory_efficiency = {{0, 0.25}, {known.bytes + 1, 1}};
  const auto ns = [&] { return PredictedCosts(plan.set(), 0, OneHost(1, 1, device), ops).Costs().act(work, 0).ns; };
  EXPECT_NEAR(ns(), 32'000, 1);
  device.memory_efficiency.clear();
  EXPECT_NEAR(ns(), 12'500, 1);
  device.hides_memory = false;
  EXPECT_NEAR(ns(), 12'500 + 8'000, 1);
}

TEST(PredictedCostsTest, RanksOfAHostShareItsCards) {
  TestPlan plan({0, 1, 2, 3});
  const int work = plan.Actor(0, "work");
  std::vector<int> copies;
  for (const int rank : {1, 2, 3}) copies.push_back(plan.Actor(rank, absl::StrCat("copy", rank)));
  const int x = plan.Register("x", {work}, {{copies[0]}, {copies[1]}, {copies[2]}}, 1, 1000);
  for (const int copy : copies) plan.Copy(copy, {x}, plan.Register(absl::StrCat("y", copy), {copy}, {}, 1, 1000));
  ASSERT_OK_AND_ASSIGN(Nics nics, NicsOfClass("infiniband"));
  const OpRegistry ops = StandardOps();
  const std::pair<int, std::vector<int>> kLinks[] = {{1, {1, 1, 1}}, {2, {1, 1, 3}}, {3, {1, 2, 3}}, {9, {1, 2, 3}}};
  for (const auto& [cards, links] : kLinks) {
    SCOPED_TRACE(cards);
    nics.count = cards;
    const HostGroup first{.count = 1, .devices = 1, .nics = {nics}}, second{.count = 1, .devices = 3, .nics = {nics}};
    ASSERT_OK_AND_ASSIGN(Topology topology, Topology::Create(4, 1, {first, second}));
    const Link wire = topology.LinkBetween(0, 1);
    const PredictedCosts predicted(plan.set(), 0, std::move(topology), ops);
    const SimulatedCosts costs = predicted.Costs();
    for (size_t i = 0; i < copies.size(); ++i) {
      EXPECT_EQ(costs.act(copies[i], 0).link, links[i]);
      EXPECT_NEAR(costs.act(copies[i], 0).link_ns, 1e9 * (wire.alpha_s + 4000 * wire.beta_s_per_byte), 1);
    }
    EXPECT_LT(costs.act(work, 0).link, 0);
  }
}

TEST(PredictedCostsTest, WhatIsSentWithMessagesIsNoPartOfTheActThatReadsIt) {
  TestPlan plan({0, 1, 2});
  const int work = plan.Actor(0, "work"), copy = plan.Actor(2, "copy"), near = plan.Actor(2, "near");
  const int x = plan.Register("x", {work}, {{copy}}, 1, 1000), y = plan.Register("y", {copy}, {{near}}, 1, 1000);
  plan.Copy(copy, {x}, y);
  plan.Copy(near, {y}, plan.Register("z", {near}, {}, 1, 1000));
  ASSERT_OK_AND_ASSIGN(const Nics nics, NicsOfClass("infiniband"));
  const OpRegistry ops = StandardOps();
  ASSERT_OK_AND_ASSIGN(Topology topology,
                       Topology::Create(3, 1, {HostGroup{.count = 2, .devices = 2, .nics = {nics}}}));
  const Link wire = topology.LinkBetween(0, 2);
  const PredictedCosts reading(plan.set(), 0, topology, ops);
  EXPECT_EQ(reading.Costs().shipment_ns(work, 0, copy, x), 0);
  EXPECT_NEAR(reading.Costs().act(copy, 0).link_ns, 1e9 * (wire.alpha_s + 4000 * wire.beta_s_per_byte), 1);

  pb::Landing& landing = *plan.plan().mutable_actors(copy)->add_landings();
  landing.set_register_(x);
  landing.set_slot_bytes(4000);
  plan.plan().mutable_actors(copy)->mutable_instructions(0)->mutable_inputs(0)->set_landed(true);
  const PredictedCosts predicted(plan.set(), 0, topology, ops);
  const SimulatedCosts costs = predicted.Costs();
  EXPECT_NEAR(costs.shipment_ns(work, 0, copy, x), 1e9 * 4000 * wire.beta_s_per_byte, 1);
  EXPECT_EQ(costs.shipment_ns(copy, 0, near, y), 0);
  EXPECT_EQ(costs.act(copy, 0).ns, costs.act(near, 0).ns);  // a copy within the rank
  EXPECT_EQ(costs.act(copy, 0).link_ns, 0);
  EXPECT_EQ(costs.act(copy, 0).link, 2);  // the card over which it comes
  EXPECT_LT(costs.act(near, 0).link, 0);
  EXPECT_EQ(costs.shipment_link(work, copy, x), 3 + 0) << "the card over which it goes, behind those that receive";
  EXPECT_LT(costs.shipment_link(copy, near, y), 0);
}

// A sender on one host, readers on two others: 4000 bytes for each leave by one card, one after the other.
TEST(PredictedCostsTest, TwoReadersOfOneSenderShareItsCard) {
  TestPlan plan({0, 1, 2});
  const int work = plan.Actor(0, "work"), one = plan.Actor(1, "one"), two = plan.Actor(2, "two");
  const int x = plan.Register("x", {work}, {{one}, {two}}, 1, 1000);
  for (const int copy : {one, two}) {
    plan.Copy(copy, {x}, plan.Register(absl::StrCat("y", copy), {copy}, {}, 1, 1000));
    pb::Landing& landing = *plan.plan().mutable_actors(copy)->add_landings();
    landing.set_register_(x);
    landing.set_slot_bytes(4000);
    plan.plan().mutable_actors(copy)->mutable_instructions(0)->mutable_inputs(0)->set_landed(true);
  }
  ASSERT_OK_AND_ASSIGN(const Nics nics, NicsOfClass("infiniband"));
  const OpRegistry ops = StandardOps();
  ASSERT_OK_AND_ASSIGN(Topology topology,
                       Topology::Create(3, 1, {HostGroup{.count = 3, .devices = 1, .nics = {nics}}}));
  const Link wire = topology.LinkBetween(0, 1);
  const PredictedCosts predicted(plan.set(), 0, topology, ops);
  const SimulatedCosts costs = predicted.Costs();
  ASSERT_OK_AND_ASSIGN(const Simulation simulation, Simulate(plan.set(), 0, 1, costs));
  const auto sent = static_cast<double>(costs.shipment_ns(work, 0, one, x));
  const auto other = static_cast<double>(costs.act(work, 0).ns + costs.act(two, 0).ns);
  EXPECT_GT(sent, 10);
  EXPECT_NEAR(static_cast<double>(simulation.step_ends_ns[0]), other + 2 * sent + 1e9 * wire.alpha_s, 1);
}

TEST(StepDivisionTest, WaitingCountsForWhatWentOnMeanwhile) {
  TestPlan plan = Transfer(1);
  plan.Register("loop", {2}, {{0}}, 1, 4, /*initially_filled=*/1);  // so that steps do not overlap
  SimulatedCosts costs;
  costs.act = [](int32_t actor, int64_t) { return ActCost{.ns = std::vector<int64_t>{30'000, 20'000, 10'000}[actor]}; };
  costs.message_ns = [](int32_t, int64_t, int32_t, int32_t) { return 4'000; };
  ASSERT_OK_AND_ASSIGN(const Simulation run, Simulate(plan.set(), 0, 20, costs));
  ASSERT_OK_AND_ASSIGN(const TraceSummary summary, Summarize(run.trace, ""));
  EXPECT_NEAR(summary.steps.median_seconds(), 72e-6, 1e-12);
  EXPECT_EQ(CriticalRank(run.trace, summary), 0);
  const std::vector<StepDivision> ranks = DivideSteps(run.trace, summary.steps);
  ASSERT_EQ(ranks.size(), 2u);
  const int64_t steps = summary.steps.num_steps();
  EXPECT_EQ(ranks[1].computing(), 10'000 * steps);
  EXPECT_EQ(ranks[1].bubble, 30'000 * steps);
  EXPECT_EQ(ranks[1].communication(), 20'000 * steps);
  EXPECT_EQ(ranks[1].messages, 12'000 * steps);
  EXPECT_EQ(ranks[1].host, 0);
  EXPECT_EQ(ranks[1].total(), 72'000 * steps);
  EXPECT_EQ(ranks[0].computing(), 30'000 * steps);
  EXPECT_EQ(ranks[0].total(), 72'000 * steps);
}

void AddPart(pb::Section section, int64_t ns, pb::Actor& actor) {
  pb::ActorPart& part = *actor.add_parts();
  part.set_section(section);
  part.set_ns(ns);
}

TEST(StepDivisionTest, SaysWhatComputingIsForAndWhatCommunicationCrosses) {
  TestPlan plan = Transfer(1);
  plan.Register("loop", {2}, {{0}}, 1, 4, /*initially_filled=*/1);
  pb::Plan& p = plan.plan();
  AddPart(pb::FORWARD, 100, *p.mutable_actors(0));
  AddPart(pb::INPUT_GRADIENTS, 50, *p.mutable_actors(2));
  AddPart(pb::WEIGHT_GRADIENTS, 40, *p.mutable_actors(2));
  AddPart(pb::UPDATE, 10, *p.mutable_actors(2));
  for (const char* axis : {"dp", "tp"}) p.mutable_actors(1)->add_crosses(axis);
  SimulatedCosts costs;
  costs.act = [](int32_t actor, int64_t) { return ActCost{.ns = std::vector<int64_t>{30'000, 20'000, 10'000}[actor]}; };
  ASSERT_OK_AND_ASSIGN(const Simulation run, Simulate(plan.set(), 0, 20, costs));
  ASSERT_OK_AND_ASSIGN(const TraceSummary summary, Summarize(run.trace, ""));
  const std::vector<StepDivision> ranks = DivideSteps(run.trace, summary.steps);
  const int64_t steps = summary.steps.num_steps();
  ASSERT_EQ(ranks.size(), 2u);
  EXPECT_THAT(ranks[0].work, ElementsAre(Pair(pb::FORWARD, 30'000 * steps)));
  EXPECT_THAT(ranks[1].work, ElementsAre(Pair(pb::INPUT_GRADIENTS, 5'000 * steps),
                                         Pair(pb::WEIGHT_GRADIENTS, 4'000 * steps), Pair(pb::UPDATE, 1'000 * steps)));
  EXPECT_THAT(ranks[1].exposed, ElementsAre(Pair("dp, tp", 20'000 * steps)));
  const std::string text = DivisionText(ranks[1], summary.steps);
  for (const char* row :
       {"0.005    8.3%  backward: gradients of values\n", "0.004    6.7%  backward: gradients of weights\n",
        "0.001    1.7%  optimizer\n", "0.020   33.3%  exposed dp, tp\n", "0.030   50.0%  bubble: others compute\n",
        "0.000    0.0%  the host reads or fetches\n"}) {
    EXPECT_THAT(text, HasSubstr(row));
  }
  EXPECT_THAT(SummaryText(run.trace, summary, {}), HasSubstr("forward\n"));
}

TEST(KnobsTest, SayWhatWouldChangeAStep) {
  TestPlan plan = Transfer(1);
  SimulatedCosts costs;
  costs.act = [](int32_t actor, int64_t) { return ActCost{.ns = std::vector<int64_t>{30'000, 20'000, 11'000}[actor]}; };
  ASSERT_OK_AND_ASSIGN(const Simulation run, Simulate(plan.set(), 0, 20, costs));
  ASSERT_OK_AND_ASSIGN(const TraceSummary summary, Summarize(run.trace, ""));
  ASSERT_NEAR(summary.steps.median_seconds(), 50e-6, 1e-12);  // work and copy take turns on the one slot
  ASSERT_OK_AND_ASSIGN(const std::vector<Knob> knobs, TurnKnobs(plan.set(), 20, costs, summary));
  std::vector<std::string> texts;
  for (const Knob& knob : knobs) texts.push_back(absl::StrCat(knob.what, ": ", knob.step_seconds * 1e6));
  EXPECT_THAT(texts, ElementsAre("communication twice as fast: 40", "computing a tenth faster: 47.272",
                                 "messages and waking up for nothing: 50", "register 'out': slots from 1 to 2: 31",
                                 "register 'boxed': slots from 1 to 2: 50"));
}

// Two registers of one name: that with two slots may lose one, that with one may not.
TEST(KnobsTest, LeaveEveryRegisterASlot) {
  TestPlan plan = Transfer(1);
  plan.Register("out", {0}, {{1}}, 2);
  SimulatedCosts costs;
  costs.act = [](int32_t, int64_t) { return ActCost{.ns = 10'000}; };
  ASSERT_OK_AND_ASSIGN(const Simulation run, Simulate(plan.set(), 0, 8, costs));
  ASSERT_OK_AND_ASSIGN(const TraceSummary summary, Summarize(run.trace, ""));
  ASSERT_OK_AND_ASSIGN(const std::vector<Knob> knobs, TurnKnobs(plan.set(), 8, costs, summary));
  for (const Knob& knob : knobs) EXPECT_THAT(knob.what, Not(HasSubstr("to 0")));
}

}  // namespace
}  // namespace oneflow
