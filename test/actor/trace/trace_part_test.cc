#include "actor/trace/trace_part.h"

#include "actor/trace/traced_program.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "test/actor/test_plan.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"

namespace oneflow {
namespace {

// Rank r is process r. What its process is given: all of its own, the producer that it hears from, with numbers of the
// whole job.
pb::Program ProgramOfProcess(int process) {
  TestPlan plan({0, 1});
  plan.set().set_process(process);
  const int first = plan.Actor(0, "first"), second = plan.Actor(1, "second");
  plan.Register("x", {first}, {{second}}, 2);
  plan.plan().mutable_actors(0)->set_id(0);
  plan.plan().mutable_actors(1)->set_id(1);
  return plan.set();
}

TraceRing ActsOf(const pb::Program& program, int actor, int acts) {
  TraceRing ring(1 << 20);
  Actor a(MakeActorSpec(program.plans(0), 0, actor));
  a.Grant(0, acts);
  ring.BeginRun(0);
  for (int i = 0; i < acts; ++i) {
    ring.BeginAct();
    ring.EndAct(a, ring.Ready({pb::ITSELF}));
    const auto number = static_cast<uint8_t>(i);
    if (!a.ready()) CHECK(a.OnMessage({.number = number, .actor = actor, .slot = i % 2}).ok());
    OutgoingMessages outbox;
    a.Act(outbox);
    if (actor == 0)
      CHECK(a.OnMessage({.kind = Message::Kind::kFreed, .number = number, .actor = 0, .slot = i % 2}).ok());
  }
  return ring;
}

pb::TraceProcess Process(int process, const std::string& clock, int64_t ahead) {
  pb::TraceProcess result;
  result.set_process(process);
  result.set_clock(clock);
  result.set_clock_ahead_ns(ahead);
  result.set_clock_error_ns(77);
  return result;
}

class TracePartTest : public ::testing::Test {
 protected:
  TracePart WriteAndRead(int process, const pb::TraceProcess& described, const TraceRing& ring) {
    const std::string path = dir_.File(absl::StrCat("part", process));
    EXPECT_OK(WriteTracePart(path, ProgramOfProcess(process), described, {&ring}));
    return ReadTracePart(path).value();
  }
  TestDir dir_;
};

TEST_F(TracePartTest, KeepsEveryActOverManyFrames) {
  const TraceRing ring = ActsOf(ProgramOfProcess(0), 0, 10'000);
  const TracePart part = WriteAndRead(0, Process(0, "c", 0), ring);
  ASSERT_EQ(part.acts.size(), ring.size());
  for (size_t i = 0; i < ring.size(); ++i) ASSERT_EQ(part.acts[i], ring[i]);
  EXPECT_EQ(part.head.program().plans(0).actors_size(), 1);  // of the other process: nothing
  EXPECT_EQ(part.head.program().plans(0).registers_size(), 1);
}

TEST_F(TracePartTest, SaysAllOfActorsAndRegistersButWhatTheyCompute) {
  TestPlan plan({0, 1});
  const int a = plan.Actor(0, "a", 1, /*priority=*/3), b = plan.Actor(0, "b"), c = plan.Actor(1, "c");
  const int x = plan.Register("x", {a}, {{b}, {c}}, 2), y = plan.Register("y", {c}, {{b}}, 1);
  plan.Compute(a, "position", {}, {x});
  const pb::Program traced = TracedProgram(plan.set(), 0);
  ASSERT_EQ(traced.plans(0).actors_size(), 2);
  pb::Actor expected = plan.plan().actors(a);
  expected.clear_instructions();
  EXPECT_EQ(traced.plans(0).actors(0).SerializeAsString(), expected.SerializeAsString());
  EXPECT_EQ(traced.plans(0).actors(1).inputs(1).register_(), y);
  ASSERT_EQ(traced.plans(0).registers_size(), 1);  // y is the other process'
  EXPECT_EQ(traced.plans(0).registers(0).SerializeAsString(), plan.plan().registers(x).SerializeAsString());
}

TEST_F(TracePartTest, CountsWhatWasLost) {
  TraceRing small(static_cast<int64_t>(sizeof(TracedAct)) * 4);
  Actor actor(MakeActorSpec(ProgramOfProcess(0).plans(0), 0, 0));
  actor.Grant(0, 100);
  for (int i = 0; i < 9; ++i) {
    small.BeginAct();
    small.EndAct(actor, {});
  }
  EXPECT_EQ(WriteAndRead(0, Process(0, "c", 0), small).head.processes(0).lost_acts(), 5);
}

TEST_F(TracePartTest, AreMergedOnOneClock) {
  const TraceRing first = ActsOf(ProgramOfProcess(0), 0, 3), second = ActsOf(ProgramOfProcess(1), 1, 3);
  for (const bool same_clock : {true, false}) {
    constexpr int64_t kAhead = 5'000'000'000;  // as if the other host had been started earlier
    ASSERT_OK_AND_ASSIGN(const Trace trace,
                         MergeTraceParts({WriteAndRead(0, Process(0, "c", 0), first),
                                          WriteAndRead(1, Process(1, same_clock ? "c" : "d", kAhead), second)}));
    EXPECT_EQ(trace.head.program().plans(0).actors_size(), 2);
    EXPECT_EQ(trace.head.processes(1).clock_error_ns(), same_clock ? 0 : 77);
    ASSERT_EQ(trace.acts.size(), 6u);
    const auto begin_of = [&](int actor) {
      return std::find_if(trace.acts.begin(), trace.acts.end(), [&](const TracedAct& a) { return a.actor == actor; })
          ->begin_ns;
    };
    const int64_t apart = second[0].begin_ns - first[0].begin_ns - (same_clock ? 0 : kAhead);
    EXPECT_EQ(begin_of(1) - begin_of(0), apart);
    EXPECT_GE(trace.acts[0].ready_ns, 0);
  }
}

TEST_F(TracePartTest, NumbersOfTheJobBecomeIndices) {
  const TraceRing first = ActsOf(ProgramOfProcess(0), 0, 2), second = ActsOf(ProgramOfProcess(1), 1, 2);
  TracePart a = WriteAndRead(0, Process(0, "c", 0), first), b = WriteAndRead(1, Process(1, "c", 0), second);
  const auto renumber = [](TracePart& part) {  // as in a job that leaves numbers out
    pb::Plan& plan = *part.head.mutable_program()->mutable_plans(0);
    for (pb::Actor& actor : *plan.mutable_actors()) {
      actor.set_id(10 * actor.id() + 3);
      for (pb::Port& port : *actor.mutable_inputs()) port.set_register_(7);
      for (pb::Port& port : *actor.mutable_outputs()) port.set_register_(7);
    }
    for (pb::Register& reg : *plan.mutable_registers()) {
      reg.set_id(7);
      reg.set_producer(3);
      reg.set_consumers(0, 13);
    }
    for (TracedAct& act : part.acts) act.actor = 10 * act.actor + 3;
  };
  renumber(a);
  renumber(b);
  ASSERT_OK_AND_ASSIGN(const Trace trace, MergeTraceParts({a, b}));
  const pb::Plan& plan = trace.head.program().plans(0);
  EXPECT_EQ(plan.actors(1).id(), 13);
  EXPECT_EQ(plan.actors(1).inputs(0).register_(), 0);
  EXPECT_EQ(plan.registers(0).consumers(0), 1);
  for (const TracedAct& act : trace.acts) EXPECT_LT(act.actor, 2);
  EXPECT_THAT(MergeTraceParts({a}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("plan 'p': no process has actor 13")));
}

TEST_F(TracePartTest, ANamelessClockIsNobodysElse) {
  const TraceRing ring = ActsOf(ProgramOfProcess(0), 0, 1), other = ActsOf(ProgramOfProcess(1), 1, 1);
  ASSERT_OK_AND_ASSIGN(const Trace trace, MergeTraceParts({WriteAndRead(0, Process(0, "", 0), ring),
                                                           WriteAndRead(1, Process(1, "", 3), other)}));
  EXPECT_EQ(trace.head.processes(1).clock_ahead_ns(), 3);
}

TEST_F(TracePartTest, RefusesOtherFiles) {
  EXPECT_THAT(ReadTracePart(dir_.File("none")), StatusIs(absl::StatusCode::kNotFound, HasSubstr("cannot open")));
  EXPECT_THAT(ReadTracePart(dir_.Write("text", "no part of anything")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is no part of a trace")));
  const TraceRing ring = ActsOf(ProgramOfProcess(0), 0, 10);
  WriteAndRead(0, Process(0, "c", 0), ring);
  std::filesystem::resize_file(dir_.File("part0"), std::filesystem::file_size(dir_.File("part0")) - 5);
  EXPECT_THAT(ReadTracePart(dir_.File("part0")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ends within a frame")));
  EXPECT_THAT(WriteTracePart(dir_.File("no/such/folder"), ProgramOfProcess(0), {}, {}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("cannot write")));
}

}  // namespace
}  // namespace oneflow
