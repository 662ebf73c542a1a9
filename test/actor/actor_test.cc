#include "actor/actor.h"

#include <deque>
#include <map>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "test/actor/test_plan.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

constexpr Message::Kind kFilled = Message::Kind::kFilled;
constexpr Message::Kind kFreed = Message::Kind::kFreed;

// source -> a -> middle -> b -> sink, all once per step, two slots each.
class ChainTest : public ::testing::Test {
 protected:
  ChainTest() {
    const int source = plan_.Actor(0, "source"), middle = plan_.Actor(0, "middle"), sink = plan_.Actor(0, "sink");
    plan_.Register("a", {source}, {{middle}}, 2);
    plan_.Register("b", {middle}, {{sink}}, 2);
  }
  Actor Make(int id) { return Actor(MakeActorSpec(plan_.plan(), 0, id)); }

  TestPlan plan_{{0}};
};

TEST_F(ChainTest, ActsOnlyWithAnInputAndABudget) {
  Actor middle = Make(1);
  EXPECT_OK(middle.OnMessage({kFilled, 0, 0, 1, 0, 0}));
  EXPECT_FALSE(middle.ready());  // a peer may be ahead of our grant
  middle.Grant(5, 2);
  ASSERT_TRUE(middle.ready());
  EXPECT_EQ(middle.step(), 5);
  OutgoingMessages outbox;
  middle.Act(outbox);
  EXPECT_THAT(outbox, ElementsAre(Message{kFilled, 0, 0, 2, 1, 0}, Message{kFreed, 0, 0, 0, 0, 0}));
  EXPECT_FALSE(middle.ready());
  EXPECT_EQ(middle.step(), 6);
}

TEST_F(ChainTest, StopsWhenItsOutputIsFull) {
  Actor source = Make(0);
  source.Grant(0, 3);
  OutgoingMessages outbox;
  source.Act(outbox);
  EXPECT_EQ(source.output_slot(0), 1);
  source.Act(outbox);
  EXPECT_FALSE(source.ready());  // both slots are still being read
  EXPECT_OK(source.OnMessage({kFreed, 0, 0, 0, 0, 0}));
  EXPECT_TRUE(source.ready());
  EXPECT_EQ(source.output_slot(0), 0);
}

TEST_F(ChainTest, IsDoneWhenItsBudgetIsUsedUpAndItsSlotsAreFreed) {
  Actor source = Make(0);
  EXPECT_TRUE(source.done());
  source.Grant(0, 1);
  EXPECT_FALSE(source.done());
  OutgoingMessages outbox;
  source.Act(outbox);
  EXPECT_FALSE(source.done());
  EXPECT_THAT(source.WaitsFor(plan_.plan()),
              HasSubstr("waits for register 0 'a' slot 0 to be freed by actor 1 'middle'"));
  EXPECT_OK(source.OnMessage({kFreed, 0, 0, 0, 0, 0}));
  EXPECT_TRUE(source.done());
  source.Grant(1, 1);  // a further run goes on with the next slot
  EXPECT_EQ(source.output_slot(0), 1);
  EXPECT_TRUE(source.ready());
}

TEST_F(ChainTest, SaysWhatItWaitsFor) {
  Actor middle = Make(1);
  EXPECT_EQ(middle.WaitsFor(plan_.plan()), "idle");
  middle.Grant(3, 1);
  EXPECT_EQ(middle.WaitsFor(plan_.plan()),
            "waits for register 0 'a' slot 0 to be filled by actor 0 'source' on rank 0 (step 3, micro-batch 0, 1 acts "
            "left)");
}

TEST_F(ChainTest, RefusesMessagesThatMakeNoSense) {
  const struct {
    const char* what;
    Message message;
    const char* error;
  } cases[] = {
      {"a register it does not read", {kFilled, 0, 0, 1, 1, 0}, "it is no input of this actor"},
      {"a register it does not write", {kFreed, 0, 0, 1, 0, 0}, "it is no output of this actor"},
      {"a register that does not exist", {kFilled, 0, 0, 1, -1, 0}, "it is no input of this actor"},
      {"not the next slot", {kFilled, 0, 0, 1, 0, 1}, "slot 0 is next"},
      {"another filling of the slot", {kFilled, 2, 0, 1, 0, 0}, "it is about filling 2 (modulo 256), and not 0"},
      {"a slot that does not exist", {kFreed, 0, 0, 1, 1, 2}, "the register has 2 slots"},
      {"a slot that nobody holds", {kFreed, 0, 0, 1, 1, 0}, "nobody holds this slot"},
  };
  for (const auto& c : cases) {
    Actor middle = Make(1);
    EXPECT_THAT(middle.OnMessage(c.message), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.error)))
        << c.what;
  }
  Actor middle = Make(1);
  EXPECT_OK(middle.OnMessage({kFilled, 0, 0, 1, 0, 0}));
  EXPECT_OK(middle.OnMessage({kFilled, 1, 0, 1, 0, 1}));
  EXPECT_THAT(middle.OnMessage({kFilled, 0, 0, 1, 0, 0}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("actor 1 'middle'"), HasSubstr("all 2 slots are filled already"))));
}

TEST_F(ChainTest, CountsFillingsSoThatNoneComesTwice) {
  Actor middle = Make(1);
  constexpr int kManySteps = 600;  // more than there are numbers: the next one is 88
  middle.Grant(0, kManySteps);
  for (int step = 0; step < kManySteps; ++step) {
    const auto number = static_cast<uint8_t>(step);
    const int32_t slot = step % 2;
    ASSERT_OK(middle.OnMessage({kFilled, number, 0, 1, 0, slot}));
    OutgoingMessages outbox;
    middle.Act(outbox);
    ASSERT_THAT(outbox, ElementsAre(Message{kFilled, number, 0, 2, 1, slot}, Message{kFreed, number, 0, 0, 0, slot}));
    const Message freed{kFreed, number, 0, 1, 1, slot};
    ASSERT_OK(middle.OnMessage(freed));
    ASSERT_THAT(middle.OnMessage(freed),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("nobody holds this slot")));
  }
  OutgoingMessages outbox;
  middle.Grant(0, 3);
  for (const uint8_t number : {88, 89}) {
    ASSERT_OK(middle.OnMessage({kFilled, number, 0, 1, 0, number % 2}));
    middle.Act(outbox);
  }
  EXPECT_OK(middle.OnMessage({kFreed, 88, 0, 1, 1, 0}));
  EXPECT_THAT(middle.OnMessage({kFilled, 88, 0, 1, 0, 0}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("filling 88 (modulo 256), and not 90")));
  ASSERT_OK(middle.OnMessage({kFilled, 90, 0, 1, 0, 0}));
  middle.Act(outbox);
  EXPECT_THAT(middle.OnMessage({kFreed, 88, 0, 1, 1, 0}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("filling 88 (modulo 256), and not 90")));
}

TEST(ActorTest, FreesASlotOnlyWhenAllConsumersHaveFreedIt) {
  TestPlan plan({0});
  const int source = plan.Actor(0, "source"), a = plan.Actor(0, "a"), b = plan.Actor(0, "b");
  plan.Register("r", {source}, {{a}, {b}}, 1);
  Actor actor(MakeActorSpec(plan.plan(), 0, source));
  actor.Grant(0, 2);
  OutgoingMessages outbox;
  actor.Act(outbox);
  EXPECT_THAT(outbox, ElementsAre(Message{kFilled, 0, 0, a, 0, 0}, Message{kFilled, 0, 0, b, 0, 0}));
  EXPECT_OK(actor.OnMessage({kFreed, 0, 0, source, 0, 0}));
  EXPECT_FALSE(actor.ready());
  EXPECT_OK(actor.OnMessage({kFreed, 0, 0, source, 0, 0}));
  EXPECT_TRUE(actor.ready());
}

TEST(ActorTest, NeverWaitsForARegisterThatNobodyReads) {
  TestPlan plan({0});
  const int source = plan.Actor(0, "source");
  plan.Register("r", {source}, {}, 1);
  Actor actor(MakeActorSpec(plan.plan(), 0, source));
  actor.Grant(0, 3);
  OutgoingMessages outbox;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(actor.ready());
    actor.Act(outbox);
  }
  EXPECT_THAT(outbox, IsEmpty());
  EXPECT_TRUE(actor.done());
}

TEST(ActorTest, HoldsASlotForAllMicroBatchesOfAStep) {
  TestPlan plan({0}, 3);
  const int weights = plan.Actor(0, "weights"), forward = plan.Actor(0, "forward", 3), sum = plan.Actor(0, "sum");
  plan.Register("w", {weights}, {{forward, 3}}, 1);
  plan.Register("total", {forward, 3}, {{sum}}, 2);
  Actor actor(MakeActorSpec(plan.plan(), 0, forward));
  actor.Grant(4, 1);
  EXPECT_OK(actor.OnMessage({kFilled, 0, 0, forward, 0, 0}));
  OutgoingMessages outbox;
  for (int m = 0; m < 3; ++m) {
    ASSERT_TRUE(actor.ready());
    EXPECT_EQ(actor.step(), 4);
    EXPECT_EQ(actor.micro_batch(), m);
    EXPECT_THAT(outbox, IsEmpty());
    actor.Act(outbox);
  }
  EXPECT_THAT(outbox, ElementsAre(Message{kFilled, 0, 0, sum, 1, 0}, Message{kFreed, 0, 0, weights, 0, 0}));
}

TEST(ActorTest, EndsWithInitiallyFilledSlotsFilledAsTheyBegan) {
  TestPlan plan({0});
  const int forward = plan.Actor(0, "forward"), update = plan.Actor(0, "update");
  plan.Register("gradient", {forward}, {{update}}, 1);
  plan.Register("w", {update}, {{forward}}, 1, 4, /*initially_filled=*/1);
  Actor f(MakeActorSpec(plan.plan(), 0, forward)), u(MakeActorSpec(plan.plan(), 0, update));
  for (int run = 0; run < 2; ++run) {
    f.Grant(run, 1);
    u.Grant(run, 1);
    OutgoingMessages outbox;
    ASSERT_TRUE(f.ready());
    EXPECT_FALSE(u.ready());  // it overwrites what forward still reads
    f.Act(outbox);
    const auto number = static_cast<uint8_t>(run);
    EXPECT_THAT(outbox,
                ElementsAre(Message{kFilled, number, 0, update, 0, 0}, Message{kFreed, number, 0, update, 1, 0}));
    EXPECT_OK(u.OnMessage(outbox[0]));
    EXPECT_OK(u.OnMessage(outbox[1]));
    outbox.clear();
    ASSERT_TRUE(u.ready());
    u.Act(outbox);
    EXPECT_TRUE(u.done());
    EXPECT_OK(f.OnMessage(outbox[0]));
    EXPECT_OK(f.OnMessage(outbox[1]));
    EXPECT_TRUE(f.done());
  }
}

// A plan with everything that could make order matter: fan-out, fan-in, a slow and a fast way round, micro-batches, a
// variable that is updated once per step, a loop that orders an actor with itself.
TestPlan Diamond() {
  TestPlan plan({0, 0, 0}, 4);
  const int source = plan.Actor(0, "source", 4), left = plan.Actor(1, "left", 4), right = plan.Actor(2, "right", 4);
  const int far = plan.Actor(2, "far", 4), join = plan.Actor(1, "join", 4), update = plan.Actor(0, "update");
  plan.Register("in", {source}, {{left}, {right}}, 3);
  plan.Register("l", {left}, {{join}}, 1);
  plan.Register("r", {right}, {{far}}, 2);
  plan.Register("f", {far}, {{join}}, 2);
  plan.Register("sum", {join, 4}, {{update}}, 2);
  plan.Register("w", {update}, {{source, 4}, {right, 4}}, 1, 4, 1);
  plan.Register("order", {far}, {{far}}, 2, 4, 1);
  return plan;
}

// Runs `steps` steps by delivering and acting in random order; messages between two actors stay in order. Every act
// writes a digest of what it read into the slots it fills. Returns the digests that `update` wrote.
std::vector<uint64_t> Simulate(const pb::Plan& plan, uint32_t seed, int steps) {
  std::mt19937 random(seed);
  std::vector<Actor> actors;
  for (int a = 0; a < plan.actors_size(); ++a) {
    actors.emplace_back(MakeActorSpec(plan, 0, a));
    actors.back().Grant(0, steps);
  }
  std::map<std::pair<int, int>, uint64_t> memory;  // (register, slot)
  std::map<std::pair<int, int>, std::deque<Message>> channels;
  std::vector<uint64_t> result;
  while (true) {
    std::vector<int> ready;
    std::vector<std::deque<Message>*> full;
    for (size_t a = 0; a < actors.size(); ++a) {
      if (actors[a].ready()) ready.push_back(static_cast<int>(a));
    }
    for (auto& [pair, channel] : channels) {
      if (!channel.empty()) full.push_back(&channel);
    }
    if (ready.empty() && full.empty()) break;
    const size_t choice = random() % (ready.size() + full.size());
    if (choice >= ready.size()) {
      std::deque<Message>& channel = *full[choice - ready.size()];
      EXPECT_OK(actors[channel.front().actor].OnMessage(channel.front()));
      channel.pop_front();
      continue;
    }
    Actor& actor = actors[ready[choice]];
    uint64_t digest = actor.step() * 1000003 + actor.micro_batch() * 10007 + ready[choice];
    for (size_t i = 0; i < actor.spec().inputs.size(); ++i) {
      digest = digest * 1099511628211ull + memory[{actor.spec().inputs[i].register_id, actor.input_slot(i)}];
    }
    for (size_t i = 0; i < actor.spec().outputs.size(); ++i) {
      uint64_t& slot = memory[{actor.spec().outputs[i].register_id, actor.output_slot(i)}];
      // A slot shared by the acts of a step gathers them.
      slot = actor.spec().outputs[i].acts_per_slot > 1 && actor.micro_batch() > 0 ? slot * 31 + digest : digest;
    }
    if (actor.spec().name == "update") result.push_back(digest);
    OutgoingMessages outbox;
    actor.Act(outbox);
    for (const Message& message : outbox) channels[{ready[choice], message.actor}].push_back(message);
  }
  for (const Actor& actor : actors) EXPECT_TRUE(actor.done()) << actor.WaitsFor(plan);
  return result;
}

TEST(ActorLawTest, ResultsDoNotDependOnTheOrderOfDelivery) {
  TestPlan plan = Diamond();
  ASSERT_OK(CheckProgram(plan.set(), 1));
  const std::vector<uint64_t> expected = Simulate(plan.plan(), 0, 5);
  ASSERT_EQ(expected.size(), 5u);
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    ASSERT_EQ(Simulate(plan.plan(), seed, 5), expected) << "seed " << seed;
  }
}

}  // namespace
}  // namespace oneflow
