#include "actor/trace/trace_ring.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "test/actor/test_plan.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

// An actor of two acts per step that waits for nobody.
Actor FreeActor() {
  TestPlan plan({0}, 2);
  plan.Actor(0, "free", 2);
  Actor actor(MakeActorSpec(plan.plan(), 0, 0));
  actor.Grant(10, 100);
  return actor;
}

void RecordActs(TraceRing& ring, Actor& actor, int acts) {
  OutgoingMessages outbox;
  for (int i = 0; i < acts; ++i) {
    const Readiness why = ring.Ready({pb::FILLED, /*register_id=*/i});
    ring.BeginAct();
    ring.EndAct(actor, why);
    actor.Act(outbox);
  }
}

TEST(TraceRingTest, RecordsWhatAnActWasAndWhatItWaitedFor) {
  TraceRing ring(1000);
  EXPECT_EQ(ring.size(), 0u);
  Actor actor = FreeActor();
  ring.BeginRun(10);
  const int64_t before = TraceRing::Now();
  RecordActs(ring, actor, 3);
  ASSERT_EQ(ring.size(), 3u);
  EXPECT_EQ(ring.lost(), 0);
  EXPECT_EQ(ring[2].step, 11);
  EXPECT_EQ(ring[2].act, 2);
  EXPECT_EQ(ring[2].run, 1);
  EXPECT_EQ(ring[2].cause, pb::FILLED);
  EXPECT_EQ(ring[2].register_id, 2);
  EXPECT_EQ(ring[2].ready_ns, ring[1].end_ns);  // nothing was said of when the message came
  EXPECT_LE(ring[0].ready_ns, before);          // when the run began
  EXPECT_LE(before, ring[0].begin_ns);
  for (size_t i = 0; i < 3; ++i) EXPECT_LE(ring[i].begin_ns, ring[i].end_ns);
}

TEST(TraceRingTest, KeepsTheLastActsAndCountsThoseLost) {
  TraceRing ring(5 * static_cast<int64_t>(sizeof(TracedAct)) + 7);
  Actor actor = FreeActor();
  ring.BeginRun(10);
  for (int recorded = 1; recorded <= 23; ++recorded) {
    RecordActs(ring, actor, 1);
    ASSERT_EQ(ring.recorded(), recorded);
    ASSERT_EQ(ring.size(), static_cast<size_t>(std::min(recorded, 5)));
    ASSERT_EQ(ring.lost(), std::max(0, recorded - 5));
    for (size_t i = 0; i < ring.size(); ++i) ASSERT_EQ(ring[i].act, ring.lost() + static_cast<int64_t>(i));
  }
}

TEST(TraceRingTest, HasRoomForOneActAtLeast) {
  TraceRing ring(1);
  Actor actor = FreeActor();
  ring.BeginRun(10);
  RecordActs(ring, actor, 2);
  ASSERT_EQ(ring.size(), 1u);
  EXPECT_EQ(ring[0].act, 1);
  EXPECT_EQ(ring.lost(), 1);
}

TEST(TraceRingTest, TellsRunsApart) {
  TraceRing ring(1000);
  Actor actor = FreeActor();
  ring.BeginRun(10);
  RecordActs(ring, actor, 200);
  actor.Grant(3, 1);
  ring.BeginRun(3);
  RecordActs(ring, actor, 1);
  const TracedAct& last = ring[ring.size() - 1];
  EXPECT_EQ(last.run, 2);
  EXPECT_EQ(last.step, 3);
  EXPECT_EQ(last.act, 0);
}

}  // namespace
}  // namespace oneflow
