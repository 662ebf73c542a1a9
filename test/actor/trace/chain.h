// A job whose every rank waits for the one before, and what must hold of a trace of it, whenever its threads ran.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "actor/trace/trace.h"
#include "actor/trace/track.h"
#include "gtest/gtest.h"
#include "test/actor/test_plan.h"

namespace oneflow::testing {

inline constexpr int kMicroBatches = 3;

// From a source on the first rank copies pass sums over micro-batches on from rank to rank.
inline TestPlan Chain(const std::vector<int>& process_of_rank) {
  TestPlan plan(process_of_rank, kMicroBatches);
  const int ranks = static_cast<int>(process_of_rank.size());
  const int source = plan.Actor(0, "source", kMicroBatches), sum = plan.Actor(0, "sum", kMicroBatches);
  const int x = plan.Register("x", {source}, {{sum}}, 2);
  plan.Compute(source, "position", {}, {x});
  std::vector<int> copies;
  for (int r = 1; r < ranks; ++r) copies.push_back(plan.Actor(r, absl::StrCat("copy", r)));
  const int sink = plan.Actor(ranks - 1, "sink");
  int last = plan.Register("total", {sum, kMicroBatches}, {{copies[0]}}, 1);
  plan.Compute(sum, "accumulate", {x}, {last});
  for (int i = 0; i < ranks - 1; ++i) {
    const int next = plan.Register(absl::StrCat("c", i), {copies[i]}, {{i + 2 < ranks ? copies[i + 1] : sink}}, 1);
    plan.Copy(copies[i], {last}, next);
    last = next;
  }
  plan.Fetch(sink, last, "total");
  return plan;
}

// Acts of one queue follow one another, in the order of their numbers; each begins when it is ready, and that is not
// before what it waited for was sent, but for the stated error of clocks.
inline void ExpectSense(const Trace& trace) {
  const ActIndex index(trace);
  std::map<std::pair<int, int>, int64_t> end_of_queue;
  std::map<std::pair<int32_t, int32_t>, int64_t> next;  // by run and actor
  int64_t waited_for_others = 0;
  for (const TracedAct& act : trace.acts) {
    const pb::Actor& actor = trace.ActorOf(act);
    int64_t& free_at = end_of_queue[{actor.rank(), QueueOf(actor)}];
    EXPECT_LE(free_at, act.begin_ns);
    free_at = act.end_ns;
    EXPECT_LE(act.ready_ns, act.begin_ns);
    int64_t& number = next[{act.run, act.actor}];
    EXPECT_EQ(act.act, number++);
    const TracedAct* const cause = index.CauseOf(act);
    EXPECT_EQ(cause == nullptr, act.cause == pb::START) << pb::Cause_Name(act.cause);
    if (cause == nullptr) continue;
    int64_t error = 0;
    for (const pb::TraceProcess& process : trace.head.processes()) error += process.clock_error_ns();
    EXPECT_LE(cause->end_ns, act.ready_ns + error)
        << "'" << actor.name() << "' waited for '" << trace.ActorOf(*cause).name() << "'";
    waited_for_others += trace.ActorOf(*cause).rank() != actor.rank();
  }
  EXPECT_GT(waited_for_others, 0);
}

}  // namespace oneflow::testing
