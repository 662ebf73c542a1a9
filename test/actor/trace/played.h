// Traces without threads or clocks: actors of a plan made by hand, played in time that the test sets. So it is known
// which act caused which, and how long everything took.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actor/actor.h"
#include "actor/trace/trace.h"
#include "actor/trace/traced_program.h"
#include "actor/trace/track.h"
#include "glog/logging.h"
#include "test/actor/test_plan.h"

namespace oneflow::testing {

struct Timing {
  std::function<int64_t(int actor, int64_t act)> act_ns;
  int64_t message_ns = 0;  // between ranks
};

using ActNumber = std::pair<int32_t, int64_t>;  // actor, act

struct Played {
  Trace trace;
  std::map<ActNumber, ActNumber> caused_by;  // of acts that waited for a message or for themselves
};

// Plays steps of the first plan of a program of one process.
class Player {
 public:
  Player(const pb::Program& program, Timing timing) : timing_(std::move(timing)) {
    played_.trace.head.set_version(kTraceVersion);
    *played_.trace.head.mutable_program() = TracedProgram(program, 0);
    played_.trace.head.add_processes();
    const pb::Plan& plan = program.plans(0);
    for (int a = 0; a < plan.actors_size(); ++a) actors_.push_back({Actor(MakeActorSpec(plan, 0, a))});
  }

  Played Play(int64_t steps) {
    for (State& state : actors_) state.actor.Grant(0, steps);
    for (State& state : actors_) Refresh(state, {pb::START}, {-1, -1});
    StartAll();
    while (!events_.empty()) {
      now_ = events_.begin()->first.first;
      const std::function<void()> event = std::move(events_.begin()->second);
      events_.erase(events_.begin());
      event();
      StartAll();
    }
    SortActs(played_.trace.acts);
    return std::move(played_);
  }

 private:
  struct State {
    Actor actor;
    bool queued = false;
    bool acting = false;
    Readiness ready = {};
    ActNumber cause = {-1, -1};
    int64_t acts = 0;
  };
  struct Serial {
    bool busy = false;
    std::set<int32_t> ready;
  };

  Serial& QueueWith(int32_t actor) {
    const pb::Actor& a = played_.trace.head.program().plans(0).actors(actor);
    return queues_[{a.rank(), QueueOf(a)}];
  }
  int RankOf(int32_t actor) const { return played_.trace.head.program().plans(0).actors(actor).rank(); }
  void At(int64_t ns, std::function<void()> event) { events_[{ns, next_event_++}] = std::move(event); }

  void Refresh(State& state, Readiness why, ActNumber cause) {
    if (state.queued || state.acting || !state.actor.ready()) return;
    why.ns = now_;
    state.queued = true;
    state.ready = why;
    state.cause = cause;
    QueueWith(state.actor.spec().id).ready.insert(state.actor.spec().id);
  }
  void StartAll() {
    for (auto& [place, queue] : queues_) {
      if (queue.busy || queue.ready.empty()) continue;
      const int32_t id = *queue.ready.begin();
      queue.ready.erase(queue.ready.begin());
      queue.busy = true;
      actors_[id].queued = false;
      actors_[id].acting = true;
      At(now_ + timing_.act_ns(id, actors_[id].acts), [this, id, begin = now_] { End(id, begin); });
    }
  }
  void End(int32_t id, int64_t begin) {
    State& state = actors_[id];
    const ActNumber number(id, state.acts++);
    if (state.cause.first >= 0) played_.caused_by[number] = state.cause;
    played_.trace.acts.push_back({.ready_ns = state.ready.ns,
                                  .begin_ns = begin,
                                  .end_ns = now_,
                                  .step = state.actor.step(),
                                  .act = number.second,
                                  .run = 1,
                                  .actor = id,
                                  .register_id = state.ready.register_id,
                                  .cause = state.ready.cause});
    QueueWith(id).busy = false;
    OutgoingMessages outbox;
    state.actor.Act(outbox);
    state.acting = false;
    Refresh(state, {pb::ITSELF}, number);
    for (const Message& message : outbox) {
      const int64_t way = RankOf(message.actor) == RankOf(id) ? 0 : timing_.message_ns;
      At(now_ + way, [this, message, number] {
        State& to = actors_[message.actor];
        const absl::Status status = to.actor.OnMessage(message);
        CHECK(status.ok()) << status.message();
        Refresh(to, {message.kind == Message::Kind::kFilled ? pb::FILLED : pb::FREED, message.register_id}, number);
      });
    }
  }

  const Timing timing_;
  Played played_;
  std::vector<State> actors_;
  std::map<std::pair<int, int>, Serial> queues_;                         // by rank and queue
  std::map<std::pair<int64_t, int64_t>, std::function<void()>> events_;  // by time, then by order of their making
  int64_t next_event_ = 0;
  int64_t now_ = 0;
};

// A pipeline over as many ranks as there are durations: an actor per rank, registers of `slots` slots between them, no
// instructions.
inline TestPlan Pipeline(int ranks, int slots, int micro_batches = 1) {
  TestPlan plan(std::vector<int>(ranks, 0), micro_batches);
  for (int r = 0; r < ranks; ++r) plan.Actor(r, absl::StrCat("stage", r), micro_batches);
  for (int r = 0; r + 1 < ranks; ++r) plan.Register(absl::StrCat("out", r), {r}, {{r + 1}}, slots);
  return plan;
}

}  // namespace oneflow::testing
