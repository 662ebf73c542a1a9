#include "actor/sim/simulator.h"

#include <map>
#include <random>

#include "actor/actor_thread.h"
#include "actor/trace/chrome_trace.h"
#include "actor/trace/traced_program.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "oneflow_core/queues.h"
#include "test/actor/sim/random_plan.h"
#include "test/actor/test_device.h"
#include "test/actor/test_plan.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"

namespace oneflow {
namespace {

// Acts of so long, by actor.
SimulatedCosts Lasting(std::vector<int64_t> ns) {
  return {.act = [ns = std::move(ns)](int32_t actor, int64_t) { return ActCost{.ns = ns[actor]}; }};
}

// "name@begin-end" of every act, by begin.
std::vector<std::string> Acts(const Simulation& simulation) {
  std::vector<std::string> acts;
  for (const TracedAct& act : simulation.trace.acts) {
    acts.push_back(absl::StrCat(simulation.trace.ActorOf(act).name(), "@", act.begin_ns, "-", act.end_ns));
  }
  return acts;
}

// A pipeline of `stages` ranks: forward takes 1, backward 2; stage s holds stages - s micro-batches.
int64_t Makespan1F1B(int stages, int micro_batches) {
  TestPlan plan(std::vector<int>(stages, 0), micro_batches);
  std::vector<int> forward, backward;
  std::vector<int64_t> ns;
  for (int s = 0; s < stages; ++s) {
    forward.push_back(plan.Actor(s, absl::StrCat("f", s), micro_batches, 0)), ns.push_back(1);
    backward.push_back(plan.Actor(s, absl::StrCat("b", s), micro_batches, 1)), ns.push_back(2);
  }
  for (int s = 0; s < stages; ++s) {
    plan.Register(absl::StrCat("kept", s), {forward[s]}, {{backward[s]}}, stages - s);
    if (s + 1 == stages) continue;
    plan.Register(absl::StrCat("out", s), {forward[s]}, {{forward[s + 1]}}, 2);
    plan.Register(absl::StrCat("gradient", s), {backward[s + 1]}, {{backward[s]}}, 2);
  }
  const absl::StatusOr<Simulation> simulation = Simulate(plan.set(), 0, 1, Lasting(ns));
  EXPECT_OK(simulation.status());
  return simulation.ok() ? simulation->step_ends_ns[0] : -1;
}

TEST(SimulatorTest, APipelineOf1F1BTakesWhatTheFormulaSays) {
  for (int stages = 1; stages <= 8; ++stages) {
    for (const int micro_batches : {1, 2, 3, 4, 7, 8, 16, 64}) {
      EXPECT_EQ(Makespan1F1B(stages, micro_batches), (micro_batches + stages - 1) * 3)
          << stages << " stages, " << micro_batches << " micro-batches";
    }
  }
}

TEST(SimulatorTest, ASecondSlotLetsBothWork) {
  for (const auto& [slots, end_ns] : {std::pair(1, 10 * (3 + 5)), std::pair(2, 3 + 10 * 5)}) {
    TestPlan plan({0, 0});
    const int producer = plan.Actor(0, "producer"), consumer = plan.Actor(1, "consumer");
    plan.Register("r", {producer}, {{consumer}}, slots);
    ASSERT_OK_AND_ASSIGN(const Simulation simulation, Simulate(plan.set(), 0, 10, Lasting({3, 5})));
    EXPECT_EQ(simulation.step_ends_ns.back(), end_ns) << slots << " slots";
    EXPECT_EQ(simulation.step_ends_ns[9] - simulation.step_ends_ns[8], slots == 1 ? 8 : 5);
  }
}

TEST(SimulatorTest, StopsBehindAStepThatTookAsLongAsTheOneBefore) {
  TestPlan plan({0, 0});
  const int producer = plan.Actor(0, "producer"), consumer = plan.Actor(1, "consumer");
  plan.Register("r", {producer}, {{consumer}}, 4);  // the producer runs ahead: 3, 6, 9, 12, then as its slots are freed
  ASSERT_OK_AND_ASSIGN(const Simulation steady, Simulate(plan.set(), 0, kUntilSteady, Lasting({3, 5})));
  EXPECT_THAT(steady.step_ends_ns, ElementsAre(8, 13, 18));
  ASSERT_OK_AND_ASSIGN(const Simulation whole, Simulate(plan.set(), 0, 3, Lasting({3, 5})));
  EXPECT_EQ(Acts(steady), Acts(whole)) << "of steps that had begun nothing is told";
  ASSERT_OK_AND_ASSIGN(const Simulation silent,
                       Simulate(plan.set(), 0, {.steps = 3, .keep_acts = false}, Lasting({3, 5})));
  EXPECT_EQ(silent.step_ends_ns, whole.step_ends_ns);
  EXPECT_TRUE(silent.trace.acts.empty());
  // What never repeats ends after all.
  SimulatedCosts longer = Lasting({3, 5});
  longer.act = [](int32_t, int64_t act) { return ActCost{.ns = 10 * (act + 1)}; };
  ASSERT_OK_AND_ASSIGN(const Simulation unsteady, Simulate(plan.set(), 0, kUntilSteady, longer));
  EXPECT_EQ(unsteady.step_ends_ns.size(), static_cast<size_t>(kUntilSteady.steps));
}

TEST(SimulatorTest, ActsByPriorityThenById) {
  TestPlan plan({0});
  for (const auto& [name, priority] :
       {std::pair("low", -1), std::pair("x", 0), std::pair("y", 0), std::pair("high", 7)}) {
    plan.Actor(0, name, 1, priority);
  }
  ASSERT_OK_AND_ASSIGN(const Simulation simulation, Simulate(plan.set(), 0, 1, Lasting({1, 2, 3, 4})));
  EXPECT_THAT(Acts(simulation), ElementsAre("high@0-4", "x@4-6", "y@6-9", "low@9-10"));
}

TEST(SimulatorTest, QueuesOfARankActAtOnce) {
  TestPlan plan({0});
  const int a = plan.Actor(0, "a"), b = plan.Actor(0, "b");
  plan.plan().mutable_actors(b)->set_queue(kCommunicationQueue);
  plan.Register("r", {a}, {{b}}, 2);
  ASSERT_OK_AND_ASSIGN(const Simulation simulation, Simulate(plan.set(), 0, 2, Lasting({4, 4})));
  EXPECT_THAT(Acts(simulation), ElementsAre("a@0-4", "a@4-8", "b@4-8", "b@8-12"));
}

TEST(SimulatorTest, MessagesWakingUpAndGoingOnTakeTheirTime) {
  TestPlan plan({0, 0});
  const int a = plan.Actor(0, "a"), b = plan.Actor(1, "b");
  plan.Register("r", {a}, {{b}}, 2);
  SimulatedCosts costs = Lasting({10, 10});
  costs.message_ns = [](int32_t from, int64_t, int32_t, int32_t) { return from == 0 ? 3 : 0; };
  costs.wake_ns = [](int32_t actor, int64_t) { return actor == 1 ? 2 : 0; };
  costs.pause_ns = [](int32_t actor, int64_t act) { return actor == 0 && act == 0 ? 1 : 0; };
  ASSERT_OK_AND_ASSIGN(const Simulation simulation, Simulate(plan.set(), 0, 2, costs));
  EXPECT_THAT(Acts(simulation), ElementsAre("a@0-10", "a@11-21", "b@15-25", "b@25-35"));
  EXPECT_EQ(simulation.trace.acts[2].ready_ns, 13);
  EXPECT_EQ(simulation.trace.acts[2].cause, pb::FILLED);
}

TEST(SimulatorTest, NoMessageOvertakesAnother) {
  TestPlan plan({0, 0});
  const int a = plan.Actor(0, "a"), b = plan.Actor(1, "b");
  plan.Register("r", {a}, {{b}}, 2);
  SimulatedCosts costs = Lasting({10, 1});
  costs.message_ns = [](int32_t, int64_t act, int32_t, int32_t) { return act == 0 ? 30 : 0; };
  ASSERT_OK_AND_ASSIGN(const Simulation simulation, Simulate(plan.set(), 0, 2, costs));
  EXPECT_THAT(Acts(simulation), ElementsAre("a@0-10", "a@10-20", "b@40-41", "b@41-42"));
}

TEST(SimulatorTest, TransfersOverOneLinkGoOneAfterAnother) {
  TestPlan plan({0, 0, 0});
  for (int r = 0; r < 3; ++r) plan.Actor(r, absl::StrCat("copy", r));
  SimulatedCosts costs;
  costs.act = [](int32_t actor, int64_t) {
    return ActCost{.ns = 3 - actor, .link_ns = 10, .link = actor < 2 ? 5 : -1};
  };
  ASSERT_OK_AND_ASSIGN(const Simulation simulation, Simulate(plan.set(), 0, 1, costs));
  EXPECT_THAT(Acts(simulation), ElementsAre("copy0@0-22", "copy1@0-12", "copy2@0-11"));
}

// A producer's slots are sent to a reader on another host, for 10 each, over a link that carries one at a time.
TEST(SimulatorTest, WhatComesWithFilledTravelsWhileTheReaderActs) {
  for (const auto& [slots, acts] :
       {std::pair(2, std::vector<std::string>{"a@0-4", "a@4-8", "b@15-20", "a@20-24", "b@25-30", "b@35-40"}),
        std::pair(1, std::vector<std::string>{"a@0-4", "b@15-20", "a@20-24", "b@35-40", "a@40-44", "b@55-60"})}) {
    TestPlan plan({0, 1});
    const int a = plan.Actor(0, "a"), b = plan.Actor(1, "b");
    const int r = plan.Register("r", {a}, {{b}}, slots);
    SimulatedCosts costs;
    costs.act = [](int32_t actor, int64_t) { return ActCost{.ns = 4 + actor, .link = actor}; };
    costs.message_ns = [a = a](int32_t from, int64_t, int32_t, int32_t) { return from == a ? 1 : 0; };
    costs.shipment_ns = [r](int32_t, int64_t, int32_t, int32_t reg) { return reg == r ? 10 : 0; };
    ASSERT_OK_AND_ASSIGN(const Simulation simulation, Simulate(plan.set(), 0, 3, costs));
    EXPECT_EQ(Acts(simulation), acts) << slots << " slots";
  }
}

TEST(SimulatorTest, WhatComesWithMessagesSharesItsLinkWithTransfers) {
  TestPlan plan({0, 1, 1, 1});
  const int a = plan.Actor(0, "a"), b = plan.Actor(1, "b"), c = plan.Actor(2, "c");
  plan.Actor(3, "copy");
  plan.Register("r", {a}, {{b}, {c}}, 1);
  SimulatedCosts costs;
  costs.act = [](int32_t actor, int64_t) {
    return actor == 3 ? ActCost{.ns = 2, .link_ns = 10, .link = 7} : ActCost{.ns = 4, .link = 7};
  };
  costs.shipment_ns = [](int32_t, int64_t, int32_t to, int32_t) { return to == 1 ? 20 : 30; };
  ASSERT_OK_AND_ASSIGN(const Simulation simulation, Simulate(plan.set(), 0, 1, costs));
  // The link carries copy's from 2 on, b's from 12, c's from 32.
  EXPECT_THAT(Acts(simulation), ElementsAre("a@0-4", "copy@0-12", "b@32-36", "c@62-66"));
  costs.act = [](int32_t, int64_t) { return ActCost{.ns = 4}; };  // all have links of their own
  ASSERT_OK_AND_ASSIGN(const Simulation alone, Simulate(plan.set(), 0, 1, costs));
  EXPECT_THAT(Acts(alone), ElementsAre("a@0-4", "copy@0-4", "b@24-28", "c@34-38"));
}

// A producer's slot goes to two readers, who have links of their own: one after the other. What another sends to the
// second waits behind it.
TEST(SimulatorTest, WhatIsSentToTwoTakesTheSendersLinkTwice) {
  TestPlan plan({0, 1, 2, 3});
  const int a = plan.Actor(0, "a"), b = plan.Actor(1, "b"), c = plan.Actor(2, "c"), d = plan.Actor(3, "d");
  plan.Register("r", {a}, {{b}, {c}}, 1);
  plan.Register("s", {d}, {{c}}, 1);
  SimulatedCosts costs;
  costs.act = [](int32_t actor, int64_t) { return ActCost{.ns = 4 + (actor == 3 ? 1 : 0), .link = actor}; };
  costs.shipment_ns = [](int32_t, int64_t, int32_t, int32_t) { return 10; };
  ASSERT_OK_AND_ASSIGN(const Simulation both, Simulate(plan.set(), 0, 1, costs));
  EXPECT_THAT(Acts(both), ElementsAre("a@0-4", "d@0-5", "b@14-18", "c@24-28")) << "links of receivers alone";
  costs.shipment_link = [](int32_t from, int32_t, int32_t) { return 10 + from; };
  ASSERT_OK_AND_ASSIGN(const Simulation simulation, Simulate(plan.set(), 0, 1, costs));
  // a's to b from 4 on, a's to c from 14, d's to c from 24.
  EXPECT_THAT(Acts(simulation), ElementsAre("a@0-4", "d@0-5", "b@14-18", "c@34-38"));
}

// Late messages of large slots come in the order of the slots.
TEST(SimulatorTest, SlotsLandInTheirOrder) {
  TestPlan plan({0, 1});
  const int a = plan.Actor(0, "a"), b = plan.Actor(1, "b");
  plan.Register("r", {a}, {{b}}, 3);
  SimulatedCosts costs = Lasting({1, 1});
  costs.message_ns = [](int32_t, int64_t act, int32_t, int32_t) { return 30 - 10 * (act % 3); };
  costs.shipment_ns = [](int32_t, int64_t, int32_t, int32_t) { return 5; };
  ASSERT_OK_AND_ASSIGN(const Simulation simulation, Simulate(plan.set(), 0, 3, costs));
  EXPECT_THAT(Acts(simulation), ElementsAre("a@0-1", "a@1-2", "a@2-3", "b@36-37", "b@37-38", "b@38-39"));
}

TEST(SimulatorTest, MembersOfACollectiveWaitForTheLast) {
  TestPlan plan({0, 0});
  const int work = plan.Actor(0, "work"), left = plan.Actor(0, "left"), right = plan.Actor(1, "right");
  plan.Register("r", {work}, {{left}}, 1);
  for (const int actor : {left, right}) plan.Instruct(actor, pb::Instruction::COLLECTIVE, "", {}, {})->set_node("sum");
  ASSERT_OK_AND_ASSIGN(const Simulation simulation, Simulate(plan.set(), 0, 1, Lasting({7, 2, 2})));
  EXPECT_THAT(Acts(simulation), ElementsAre("work@0-7", "right@0-9", "left@7-9"));
}

TEST(SimulatorTest, OrdersOfCollectivesThatContradictEachOtherStop) {
  TestPlan plan({0, 0});
  for (int r = 0; r < 2; ++r) {
    for (const char* node : {"x", "y"}) {
      plan.Instruct(plan.Actor(r, absl::StrCat(node, r)), pb::Instruction::COLLECTIVE, "", {}, {})->set_node(node);
    }
  }
  for (const std::vector<int>& actors : {std::vector<int>{0, 1}, std::vector<int>{3, 2}}) {
    pb::QueueOrder* order = plan.plan().add_orders();
    order->set_queue(kCommunicationQueue);
    order->set_rank(plan.plan().actors(actors[0]).rank());
    order->mutable_actors()->Assign(actors.begin(), actors.end());
  }
  EXPECT_THAT(Simulate(plan.set(), 0, 1, {}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("'x0' on rank 0 waits for the other members of its collective"),
                             HasSubstr("the next in the order of its queue is actor 3 'y1'"))));
  plan.plan().mutable_orders(1)->mutable_actors()->SwapElements(0, 1);
  EXPECT_OK(Simulate(plan.set(), 0, 3, {}).status());
}

TEST(SimulatorTest, ADeadPlanSaysWhoWaitsForWhom) {
  TestPlan plan({0, 0});
  const int a = plan.Actor(0, "a"), b = plan.Actor(1, "b");
  plan.Register("there", {a}, {{b}}, 1);
  plan.Register("back", {b}, {{a}}, 1);
  EXPECT_THAT(
      Simulate(plan.set(), 0, 1, {}),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("plan 'p' is stuck after 0 acts: 2 of 2 actors are not done"),
                     HasSubstr("actor 0 'a' on rank 0 waits for register 1 'back' slot 0 to be filled by actor 1 'b'"),
                     HasSubstr("actor 1 'b' on rank 1 waits for register 0 'there'"))));
}

TEST(SimulatorTest, RefusesPlansThatNameWhatIsNotThere) {
  const auto refuses = [](void (*spoil)(pb::Plan&), const char* why) {
    TestPlan plan({0});
    const int a = plan.Actor(0, "a");
    plan.Register("r", {a}, {}, 1);
    plan.plan().add_orders()->add_actors(a);
    ASSERT_OK(Simulate(plan.set(), 0, 1, {}).status());
    spoil(plan.plan());
    EXPECT_THAT(Simulate(plan.set(), 0, 1, {}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
  };
  refuses([](pb::Plan& p) { p.mutable_actors(0)->set_rank(1); }, "is on rank 1 of 1");
  refuses([](pb::Plan& p) { p.mutable_registers(0)->set_producer(9); }, "is of an actor that is none of 1");
  refuses([](pb::Plan& p) { p.mutable_actors(0)->mutable_outputs(0)->set_register_(3); }, "register 3, of 1");
  refuses([](pb::Plan& p) { p.mutable_orders(0)->set_rank(4); }, "of rank 4, of 1");
  refuses([](pb::Plan& p) { p.mutable_orders(0)->set_actors(0, 4); }, "names actor 4");
}

// What the runtime would have said and done, turn by turn on this thread.
class Doing : public ActRunner, public MessageBus, public ActorThread::Listener {
 public:
  absl::Status RunAct(const Actor& actor, Afterwards&) override {
    acts.push_back(absl::StrCat(actor.spec().name, "/", actor.step(), "/", actor.micro_batch()));
    return absl::OkStatus();
  }
  void Send(int, const Message&) override { FAIL() << "a plan of one queue has no messages to others"; }
  void OnThreadDone(int) override { done = true; }
  void OnThreadFailed(int, absl::Status status) override { FAIL() << status; }

  std::vector<std::string> acts;
  bool done = false;
};

TEST(SimulatorTest, ActsOfAQueueAreInTheOrderOfItsThread) {
  int live = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    TestPlan plan = RandomPlan(seed, /*ranks=*/1);
    const absl::StatusOr<Simulation> simulation = Simulate(plan.set(), 0, 3, Lasting(std::vector<int64_t>(20, 1)));
    Doing doing;
    TestDevice device(false);
    ActorThread thread({plan.set(), 0, {{kComputeQueue, device, doing}}, doing, doing});
    thread.Grant(0, 0, 3);
    while (thread.Turn()) {
    }
    ASSERT_EQ(simulation.ok(), doing.done);
    if (!simulation.ok()) continue;
    ++live;
    std::vector<std::string> acts;
    for (const TracedAct& act : simulation->trace.acts) {
      const pb::Actor& actor = simulation->trace.ActorOf(act);
      acts.push_back(absl::StrCat(actor.name(), "/", act.step, "/", act.act % actor.acts_per_step()));
    }
    EXPECT_EQ(acts, doing.acts);
  }
  EXPECT_GT(live, 50);
}

TEST(SimulatorTest, ATraceIsWholeAndSaysWhatLetEveryActBegin) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    TestPlan plan = RandomPlan(seed, /*ranks=*/3);
    std::mt19937 random(seed);
    std::vector<int64_t> ns;
    for (int i = 0; i < 20; ++i) ns.push_back(1 + random() % 50);
    SimulatedCosts costs = Lasting(ns);
    costs.message_ns = [&](int32_t from, int64_t, int32_t to, int32_t) {
      return 1 + 3 * plan.plan().actors(from).rank() + plan.plan().actors(to).rank();
    };
    const absl::StatusOr<Simulation> simulation = Simulate(plan.set(), 0, 4, costs);
    if (!simulation.ok()) continue;
    const Trace& trace = simulation->trace;
    ASSERT_OK(CheckTraceHead(trace.head));
    const ActIndex index(trace);
    std::map<int, int64_t> free_ns;  // by rank
    for (const TracedAct& act : trace.acts) {
      ASSERT_OK(CheckTracedAct(trace.head, act));
      EXPECT_LE(act.ready_ns, act.begin_ns);
      int64_t& free = free_ns[trace.ActorOf(act).rank()];
      EXPECT_LE(free, act.begin_ns);
      EXPECT_TRUE(act.begin_ns == free || act.begin_ns == act.ready_ns) << "a queue is idle, and an act is ready";
      free = act.end_ns;
      if (act.cause != pb::FILLED && act.cause != pb::FREED) continue;
      const TracedAct* cause = index.CauseOf(act);
      ASSERT_NE(cause, nullptr);
      const bool near = trace.ActorOf(*cause).rank() == trace.ActorOf(act).rank();
      EXPECT_EQ(act.ready_ns, cause->end_ns + (near ? 0 : costs.message_ns(cause->actor, cause->act, act.actor, 0)));
    }
    ASSERT_OK_AND_ASSIGN(const Simulation again, Simulate(plan.set(), 0, 4, costs));
    EXPECT_EQ(again.trace.acts, trace.acts);
  }
}

TEST(SimulatorTest, ATraceIsAFileLikeThatOfARun) {
  TestPlan plan = RandomPlan(1, 2);
  for (uint32_t seed = 2; !Simulate(plan.set(), 0, 2, {}).ok(); ++seed) plan = RandomPlan(seed, 2);
  ASSERT_OK_AND_ASSIGN(const Simulation simulation, Simulate(plan.set(), 0, 2, Lasting(std::vector<int64_t>(20, 5))));
  const TestDir dir;
  ASSERT_OK(WriteChromeTrace(simulation.trace, dir.File("trace.json")));
  ASSERT_OK_AND_ASSIGN(const Trace read, ReadChromeTrace(dir.File("trace.json")));
  EXPECT_EQ(read.acts, simulation.trace.acts);
}

}  // namespace
}  // namespace oneflow
