// A plan whose credits and orders can be changed, and what all who know of liveness say of it: the proof on the wait
// graph of classes and of ranks, a play of one step with counters, the simulator, and actor threads turn by turn.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "actor/actor_thread.h"
#include "actor/sim/simulator.h"
#include "compiler/lower/wait_graph.h"
#include "compiler/plan/step_player.h"
#include "compiler/plan/wait_expansion.h"
#include "oneflow_core/queues.h"
#include "proto/plan.pb.h"
#include "test/actor/test_device.h"
#include "test/support/spelled_out.h"
#include "test/support/status_matchers.h"

namespace oneflow::testing {

using Counts = std::vector<int>;  // acts that happened, by actor

// All actor threads of a program, turn by turn, in an order of their own.
class Threads : public ActRunner, public MessageBus, public ActorThread::Listener {
 public:
  Threads(const pb::Program& program, uint32_t seed) : counts_(program.plans(0).actors_size(), 0), random_(seed) {
    std::set<int> addresses;
    for (const pb::Actor& actor : program.plans(0).actors()) addresses.insert(AddressOf(actor.rank(), actor.queue()));
    threads_.resize(program.ranks_size() * kNumQueues);
    for (const int address : addresses) {
      const int queue = address % kNumQueues;
      threads_[address] = std::make_unique<ActorThread>(
          ActorThread::Context{program, RankAt(address), {{queue, device_, *this}}, *this, *this});
      running_.push_back(address);
    }
  }

  // One step.
  Counts Run() {
    for (const int address : running_) threads_[address]->Grant(0, 0, 1);
    for (bool moved = true; moved;) {
      moved = false;
      std::shuffle(running_.begin(), running_.end(), random_);
      for (const int address : running_) moved = threads_[address]->Turn() || moved;
    }
    return counts_;
  }
  bool all_done() const { return done_ == static_cast<int>(running_.size()); }

  absl::Status RunAct(const Actor& actor, Afterwards&) override {
    ++counts_[actor.spec().id];
    return absl::OkStatus();
  }
  void Send(int address, const Message& message) override { threads_[address]->Post({&message, 1}); }
  void OnThreadDone(int) override { ++done_; }
  void OnThreadFailed(int, absl::Status status) override { ADD_FAILURE() << status; }

 private:
  TestDevice device_;
  Counts counts_;
  std::mt19937 random_;
  std::vector<int> running_;  // addresses
  std::vector<std::unique_ptr<ActorThread>> threads_;
  int done_ = 0;
};

// One step with counters.
inline Counts Play(const WaitGraph& graph) {
  StepPlayer player(graph);
  Counts counts(graph.actors.size(), 0);
  std::deque<int> maybe;
  for (int actor = 0; actor < static_cast<int>(counts.size()); ++actor) maybe.push_back(actor);
  std::vector<std::vector<int>> with(counts.size());
  for (const std::vector<int>& group : graph.together) {
    for (const int one : group) with[one] = group;
  }
  while (!maybe.empty()) {
    const int actor = maybe.front();
    maybe.pop_front();
    if (!player.CanAct(actor)) continue;
    player.Act(actor);
    if (with[actor].empty()) ++counts[actor];
    for (const int one : with[actor]) ++counts[one];
    maybe.push_back(actor);
    player.ForEachTouched(actor, [&](int other) { maybe.push_back(other); });
  }
  return counts;
}

// What the wait graph says: all acts but those on a circle without a token, and those that wait for such.
inline Counts Possible(const WaitGraph& graph) {
  const WaitExpansion acts(graph, WaitExpansion::Waits::kWithinStep);
  std::vector<size_t> waits(acts.size());
  std::vector<std::vector<int>> waiters(acts.size());
  std::vector<int> ready;
  for (int v = 0; v < acts.size(); ++v) {
    waits[v] = acts.edges(v).size();
    if (waits[v] == 0) ready.push_back(v);
    for (const WaitExpansion::Edge& edge : acts.edges(v)) waiters[edge.to].push_back(v);
  }
  std::vector<bool> happens(acts.size(), false);
  for (size_t head = 0; head < ready.size(); ++head) {
    happens[ready[head]] = true;
    for (const int waiter : waiters[ready[head]]) {
      if (--waits[waiter] == 0) ready.push_back(waiter);
    }
  }
  Counts counts;
  for (size_t a = 0; a < graph.actors.size(); ++a) {
    int count = 0;
    for (int act = 0; act < graph.actors[a].acts_per_step; ++act)
      count += happens[acts.vertex(static_cast<int>(a), act)];
    counts.push_back(count);
  }
  return counts;
}

// What was taken away; only waits for it can have closed a circle.
struct Change {
  std::vector<int> registers;  // of these a credit, or what they held at first
  bool credit = true;
  std::vector<std::pair<int, int>> turns;  // now waits for the turn of

  bool Explains(const Wait& wait) const {
    if (wait.reg >= 0) {
      return wait.credit == credit && std::find(registers.begin(), registers.end(), wait.reg) != registers.end();
    }
    return std::find(turns.begin(), turns.end(), std::pair(wait.actor, wait.on)) != turns.end();
  }
};

// A plan by classes and spelled out, both as wait graphs and as the program that runs.
class MutablePlan {
 public:
  explicit MutablePlan(pb::PlanSet set)
      : set_(std::move(set)),
        program_(SpelledOut(set_)),
        on_classes_(*oneflow::WaitGraphOf(plan())),
        on_ranks_(*WaitGraphOf(program_.plans(0))) {
    FindInstances();
    FindOrders();
  }

  int num_registers() const { return plan().registers_size(); }
  int slots(int reg) const { return on_classes_.registers[reg].slots; }
  int filled(int reg) const { return on_classes_.registers[reg].initially_filled; }
  int num_orders() const { return plan().orders_size(); }
  int length(int order) const { return plan().orders(order).actors_size(); }
  // Neighbours in an order are acts of one actor.
  bool IsSame(int order, int at) const { return on_classes_.orders[order][at] == on_classes_.orders[order][at + 1]; }
  bool has_calls() const { return !on_ranks_.together.empty(); }

  const std::vector<int>& Instances(int reg) const { return instances_[reg]; }

  void SetSlots(int reg, int slots) {
    on_classes_.registers[reg].slots = slots;
    for (const int id : Instances(reg)) {
      on_ranks_.registers[id].slots = slots;
      program_.mutable_plans(0)->mutable_registers(id)->set_slots(slots);
    }
  }
  void SetFilled(int reg, int filled) {
    on_classes_.registers[reg].initially_filled = filled;
    for (const int id : Instances(reg)) {
      on_ranks_.registers[id].initially_filled = filled;
      program_.mutable_plans(0)->mutable_registers(id)->set_initially_filled(filled);
    }
  }
  // Exchanges an act and the next; what then waits for whom, on classes and on ranks.
  void Swap(int order, int at, Change* on_classes = nullptr, Change* on_ranks = nullptr) {
    std::swap(on_classes_.orders[order][at], on_classes_.orders[order][at + 1]);
    if (on_classes != nullptr) AddTurns(on_classes_.orders[order], at, *on_classes);
    for (auto& [id, position] : orders_[order]) {
      const int here = position[at], next = position[at + 1];
      if (here < 0 || next < 0) {  // what has no part there changes its place in the class' order alone
        std::swap(position[at], position[at + 1]);
        continue;
      }
      program_.mutable_plans(0)->mutable_orders(id)->mutable_actors()->SwapElements(here, next);
      std::swap(on_ranks_.orders[id][here], on_ranks_.orders[id][next]);
      if (on_ranks != nullptr) AddTurns(on_ranks_.orders[id], here, *on_ranks);
    }
  }

  // Whether it is live, which all agree about. `change`, if given, is what makes it dead if it is.
  bool IsLive(uint32_t seed, const Change* of_classes = nullptr, const Change* of_ranks = nullptr) {
    const Counts possible = Possible(on_ranks_);
    const bool live = IsWhole(possible);
    EXPECT_EQ(CheckLive(on_ranks_).ok(), live);
    EXPECT_EQ(SimulateStep(on_ranks_).ok(), live);
    EXPECT_EQ(Play(on_ranks_), possible) << "counters";
    if (!live || seed % 4 == 0) {
      CheckSimulated(Simulated(seed), possible);
      if (!has_calls()) {
        Threads threads(program_, seed);
        EXPECT_EQ(threads.Run(), possible) << "actor threads";
        EXPECT_EQ(threads.all_done(), live);
      }
    }
    // On classes a dead walk may be none on ranks, where calls are made by groups without a common rank or instances
    // wait for one another in a line.
    const bool proved = CheckLive(on_classes_).ok();
    EXPECT_TRUE(live || !proved) << "the proof on classes calls a dead plan live";
    stricter_ += live && !proved;
    if (!live) CheckCycle(on_ranks_, possible, of_ranks);
    if (!proved) CheckCycle(on_classes_, Possible(on_classes_), of_classes);
    return live;
  }
  // How often the proof on classes refused what would have run.
  int stricter() const { return stricter_; }

 private:
  const pb::ClassPlan& plan() const { return set_.plans(0); }

  // Registers of the program by those of the plan, whose instances are numbered one after another.
  void FindInstances() {
    std::map<int, int> register_at;  // by the first instance
    for (int r = 0; r < plan().registers_size(); ++r) register_at[plan().registers(r).first_id()] = r;
    instances_.resize(plan().registers_size());
    for (int id = 0; id < program_.plans(0).registers_size(); ++id) {
      const auto behind = register_at.upper_bound(program_.plans(0).registers(id).id());
      instances_[std::prev(behind)->second].push_back(id);
    }
  }

  // A rank's order is that of its class, less what it has no part in.
  void FindOrders() {
    const pb::Plan& spelled_out = program_.plans(0);
    std::map<int, int> actor_at;  // by the first instance
    for (int a = 0; a < plan().actors_size(); ++a) actor_at[plan().actors(a).first_id()] = a;
    const auto actor_of = [&](int id) { return std::prev(actor_at.upper_bound(spelled_out.actors(id).id()))->second; };
    for (const pb::ClassOrder& of_class : plan().orders()) {
      auto& same = orders_.emplace_back();
      const auto& ranks = set_.classes(of_class.class_()).ranks();
      for (int p = 0; p < spelled_out.orders_size(); ++p) {
        const pb::QueueOrder& order = spelled_out.orders(p);
        if (order.queue() != of_class.queue() || std::count(ranks.begin(), ranks.end(), order.rank()) == 0) continue;
        std::vector<int>& position = same.emplace_back(p, std::vector<int>()).second;
        int next = 0;
        for (const int actor : of_class.actors()) {
          const bool has_part = next < order.actors_size() && actor_of(order.actors(next)) == actor;
          position.push_back(has_part ? next++ : -1);
        }
        EXPECT_EQ(next, order.actors_size());
      }
    }
  }

  static void AddTurns(const std::vector<int>& order, int at, Change& change) {
    for (int i = std::max(1, at); i <= std::min(at + 2, static_cast<int>(order.size()) - 1); ++i)
      change.turns.emplace_back(order[i], order[i - 1]);
  }

  bool IsWhole(const Counts& counts) const {
    for (size_t a = 0; a < counts.size(); ++a) {
      if (counts[a] != on_ranks_.actors[a].acts_per_step) return false;
    }
    return true;
  }

  Counts Simulated(uint32_t seed) const {
    Counts counts(on_ranks_.actors.size(), 0);
    SimulatedCosts costs;
    costs.act = [&](int32_t actor, int64_t act) {
      counts[actor] = std::max(counts[actor], static_cast<int>(act) + 1);
      return ActCost{.ns = (seed + actor * 7 + act * 3) % 11};
    };
    costs.message_ns = [&](int32_t from, int64_t act, int32_t to, int32_t) { return (seed + from + act + 5 * to) % 4; };
    const absl::Status status = Simulate(program_, 0, 1, costs).status();
    EXPECT_EQ(status.ok(), IsWhole(counts)) << status;
    return counts;
  }

  // A call that waits for its other members keeps its queue, so that in a dead plan what else is on that queue stops
  // with it, though the circle is none of its business.
  void CheckSimulated(const Counts& simulated, const Counts& possible) const {
    if (!has_calls()) {
      EXPECT_EQ(simulated, possible) << "the simulator";
      return;
    }
    EXPECT_EQ(IsWhole(simulated), IsWhole(possible)) << "the simulator";
    for (size_t a = 0; a < possible.size(); ++a) EXPECT_LE(simulated[a], possible[a]) << on_ranks_.actors[a].name;
  }

  // The circle that the proof names: each act waits for the next, none of them happened, and a wait of what was changed
  // is among them.
  static void CheckCycle(const WaitGraph& graph, const Counts& counts, const Change* change) {
    const std::optional<std::vector<Wait>> cycle = FindDeadCycle(graph);
    ASSERT_TRUE(cycle.has_value());
    std::vector<int> group_of(graph.actors.size(), -1);
    for (size_t g = 0; g < graph.together.size(); ++g) {
      for (const int one : graph.together[g]) group_of[one] = static_cast<int>(g);
    }
    for (size_t i = 0; i < cycle->size(); ++i) {
      const Wait& wait = (*cycle)[i];
      const Wait& next = (*cycle)[(i + 1) % cycle->size()];
      EXPECT_GE(wait.act, counts[wait.actor]) << "an act of the circle happened";
      EXPECT_EQ(wait.on_act, next.act);
      EXPECT_TRUE(wait.on == next.actor || (group_of[wait.on] >= 0 && group_of[wait.on] == group_of[next.actor]));
    }
    if (change == nullptr) return;
    EXPECT_TRUE(std::any_of(cycle->begin(), cycle->end(), [&](const Wait& wait) { return change->Explains(wait); }))
        << "the circle does not go through what was changed: " << CheckLive(graph);
  }

  const pb::PlanSet set_;
  pb::Program program_;
  WaitGraph on_classes_, on_ranks_;
  // By order of the plan: those of the program, and where each act of it is there; negative: nowhere.
  std::vector<std::vector<std::pair<int, std::vector<int>>>> orders_;
  std::vector<std::vector<int>> instances_;  // by register of the plan: those of the program
  int stricter_ = 0;
};

struct Seen {
  int live = 0, dead = 0;
  int needed_credits = 0, credits = 0;
  int needed_turns = 0, turns = 0;
  int stricter = 0;
};

// Takes every credit and every order of two acts of a live plan away in turn.
inline void TakeEachAway(MutablePlan& plan, uint32_t seed, Seen& seen) {
  for (int r = 0; r < plan.num_registers(); ++r) {
    const int slots = plan.slots(r), filled = plan.filled(r);
    if (slots == 1 && filled == 0) continue;  // without a slot it is no register
    const bool token = filled > 0;
    token ? plan.SetFilled(r, filled - 1) : plan.SetSlots(r, slots - 1);
    const Change of_classes{{r}, !token, {}}, of_ranks{plan.Instances(r), !token, {}};
    SCOPED_TRACE(absl::StrCat("register ", r, " less one"));
    seen.needed_credits += !plan.IsLive(seed + r, &of_classes, &of_ranks);
    ++seen.credits;
    token ? plan.SetFilled(r, filled) : plan.SetSlots(r, slots);
  }
  for (int o = 0; o < plan.num_orders(); ++o) {
    for (int at = 0; at + 1 < plan.length(o); ++at) {
      if (plan.IsSame(o, at)) continue;
      Change of_classes, of_ranks;
      plan.Swap(o, at, &of_classes, &of_ranks);
      SCOPED_TRACE(absl::StrCat("order ", o, ": ", at, " and the next exchanged"));
      seen.needed_turns += !plan.IsLive(seed + at, &of_classes, &of_ranks);
      ++seen.turns;
      plan.Swap(o, at);
    }
  }
}

}  // namespace oneflow::testing
