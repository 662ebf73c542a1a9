#include "actor/trace/trace.h"

#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "test/actor/trace/played.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

// A variable that a sum over micro-batches updates, read meanwhile; two readers of one register on other ranks.
TestPlan Loop(int micro_batches, int slots) {
  TestPlan plan({0, 0, 0}, micro_batches);
  const int forward = plan.Actor(0, "forward", micro_batches), copy = plan.Actor(1, "copy", micro_batches),
            look = plan.Actor(2, "look", micro_batches), update = plan.Actor(0, "update");
  plan.Register("y", {forward}, {{copy}, {look}}, slots);
  plan.Register("gradient", {copy, micro_batches}, {{update}}, 1);
  plan.Register("w", {update}, {{forward, micro_batches}}, 1, 4, /*initially_filled=*/1);
  return plan;
}

TEST(ActIndexTest, FindsForEveryActTheOneThatLetItBegin) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937 random(seed);
  for (int trial = 0; trial < 50; ++trial) {
    const int micro_batches = 1 + static_cast<int>(random() % 4), slots = 1 + static_cast<int>(random() % 3);
    TestPlan plan = Loop(micro_batches, slots);
    // Times that never meet: of two that end together either may be the last.
    Player player(plan.set(), {.act_ns = [&](int, int64_t) { return 1 + static_cast<int64_t>(random() % 1'000'000); },
                               .message_ns = 10});
    const Played played = player.Play(5);
    const ActIndex index(played.trace);
    EXPECT_EQ(played.trace.acts.size(), 5u * (3 * micro_batches + 1));
    for (const TracedAct& act : played.trace.acts) {
      ASSERT_OK(CheckTracedAct(played.trace.head, act));
      const auto cause = played.caused_by.find({act.actor, act.act});
      const TracedAct* const found = index.CauseOf(act);
      ASSERT_EQ(found != nullptr, cause != played.caused_by.end()) << played.trace.ActorOf(act).name();
      if (found == nullptr) continue;
      EXPECT_EQ(ActNumber(found->actor, found->act), cause->second);
    }
  }
}

TEST(ActIndexTest, KnowsWhatIsLost) {
  TestPlan plan = testing::Pipeline(2, 1);
  Played played = Player(plan.set(), {.act_ns = [](int, int64_t) { return 10; }}).Play(3);
  std::erase_if(played.trace.acts, [](const TracedAct& act) { return act.step == 0; });
  const ActIndex index(played.trace);
  EXPECT_EQ(index.Find(1, 0, 0, 0), nullptr);
  ASSERT_NE(index.Find(1, 0, 0, 1), nullptr);
  EXPECT_EQ(index.CauseOf(*index.Find(1, 0, 0, 1)), nullptr);  // a slot that an act of step 0 freed
}

TEST(TraceTest, RefusesActsThatCannotBe) {
  TestPlan plan = testing::Pipeline(2, 1);
  const Trace trace = Player(plan.set(), {.act_ns = [](int, int64_t) { return 10; }}).Play(2).trace;
  ASSERT_OK(CheckTraceHead(trace.head));
  const TracedAct good = trace.acts[1];
  ASSERT_EQ(good.cause, pb::FILLED);
  const struct {
    std::function<void(TracedAct&)> spoil;
    const char* error;
  } cases[] = {
      {[](TracedAct& a) { a.plan = 1; }, "of plan 1, of 1"},
      {[](TracedAct& a) { a.actor = 2; }, "actor 2 of plan 'p', which has 2"},
      {[](TracedAct& a) { a.act = -1; }, "act -1 of 'stage1'"},
      {[](TracedAct& a) { a.act = INT64_MAX; }, "of 'stage1', in step"},
      {[](TracedAct& a) { a.end_ns = a.begin_ns - 1; }, "from 10 to 9 ns"},
      {[](TracedAct& a) { a.ready_ns = INT64_MIN; }, "ready at -9223372036854775808 ns"},
      {[](TracedAct& a) { a.cause = pb::FREED; }, "waited for register 0, of which it has no port"},
      {[](TracedAct& a) { a.register_id = 7; }, "waited for register 7, of which it has no port"},
  };
  for (const auto& c : cases) {
    TracedAct act = good;
    c.spoil(act);
    EXPECT_THAT(CheckTracedAct(trace.head, act), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.error)));
  }
}

TEST(TraceTest, RefusesHeadsThatCannotBe) {
  TestPlan plan = testing::Pipeline(2, 1);
  const pb::TraceHead good = Player(plan.set(), {.act_ns = [](int, int64_t) { return 1; }}).Play(1).trace.head;
  const struct {
    std::function<void(pb::TraceHead&, pb::Plan&)> spoil;
    const char* error;
  } cases[] = {
      {[](pb::TraceHead& h, pb::Plan&) { h.set_version(9); }, "format version 9; ours is 1"},
      {[](pb::TraceHead&, pb::Plan& p) { p.mutable_actors(1)->set_rank(2); }, "is on rank 2 of 2"},
      {[](pb::TraceHead&, pb::Plan& p) { p.mutable_actors(1)->mutable_inputs(0)->set_register_(1); },
       "a port of register 1, of 1"},
      {[](pb::TraceHead&, pb::Plan& p) { p.mutable_actors(0)->mutable_outputs(0)->set_acts_per_slot(0); },
       "uses a slot for 0 acts"},
      {[](pb::TraceHead&, pb::Plan& p) { p.mutable_registers(0)->set_consumers(0, 2); }, "an actor that is none of 2"},
      {[](pb::TraceHead&, pb::Plan& p) { p.mutable_registers(0)->set_slots(0); }, "has 0 slots"},
  };
  for (const auto& c : cases) {
    pb::TraceHead head = good;
    c.spoil(head, *head.mutable_program()->mutable_plans(0));
    EXPECT_THAT(CheckTraceHead(head), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.error)));
  }
}

}  // namespace
}  // namespace oneflow
