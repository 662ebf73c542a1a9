#include "compiler/plan/lifetimes.h"

#include <algorithm>
#include <climits>
#include <map>
#include <tuple>
#include <utility>

#include "compiler/plan/own_waits.h"
#include "oneflow_core/arithmetic.h"
#include "oneflow_core/queues.h"

namespace oneflow {
namespace {

// No act of the clock.
constexpr int kNone = INT_MIN / 2;

}  // namespace

// Finds the clock of one class after the other, and the times of acts and registers on it.
class LifetimeFinder {
 public:
  LifetimeFinder(const PlanInput& input, const PhysicalPlan& plan, Lifetimes& out)
      : input_(input),
        plan_(plan),
        out_(out),
        waits_(input, plan),
        here_(plan.actors.size(), -1),
        position_(waits_.num_acts()),
        after_(waits_.num_acts()),
        before_(waits_.num_acts()),
        alike_after_(waits_.num_acts()),
        alike_before_(waits_.num_acts()),
        in_step_before_(waits_.num_acts()),
        in_step_after_(waits_.num_acts()) {
    actors_.resize(input.classes.size());
    for (size_t a = 0; a < plan.actors.size(); ++a) {
      for (const int c : ClassesOf(input.classes, plan.actors[a])) actors_[c].push_back(static_cast<int>(a));
    }
    order_.resize(waits_.num_acts());
    for (size_t i = 0; i < waits_.sorted().size(); ++i) order_[waits_.sorted()[i]] = static_cast<int>(i);
  }

  void Run() {
    out_.clocks_.resize(input_.classes.size());
    out_.of_register_.resize(plan_.registers.size());
    out_.acts_.resize(plan_.actors.size());
    const bool dead = waits_.sorted().size() < static_cast<size_t>(waits_.num_acts());
    for (int c = 0; c < input_.classes.size(); ++c) {
      class_ = c;
      CollectActs();
      clock_.clear();
      if (!dead) FindClock();
      StartTicks();
      SayActs();
      SayRegisters();
    }
    for (std::vector<Ticks>& ticks : out_.of_register_) Normalize(ticks);
  }

 private:
  int NumInstructions(int act) const {
    return std::max<int>(1, static_cast<int>(plan_.actors[waits_.actor_of(act)].instructions.size()));
  }
  bool IsHere(int act) const { return here_[waits_.actor_of(act)] == class_; }
  int size() const { return static_cast<int>(clock_.size()); }

  // The acts of this class, each behind those that it waits for.
  void CollectActs() {
    acts_here_.clear();
    for (const int actor : actors_[class_]) {
      here_[actor] = class_;
      for (int act = 0; act < NumActs(plan_.actors[actor]); ++act) acts_here_.push_back(waits_.first_act(actor) + act);
    }
    std::sort(acts_here_.begin(), acts_here_.end(), [&](int a, int b) { return order_[a] < order_[b]; });
  }

  // A longest line of acts in one step that wait for one another, perhaps without counting copies between tiers, which
  // may go on beside all others. Of several one with the most acts that compute, then with the most instructions of
  // these, since they hold what others wait for.
  std::vector<int> LongestLine() {
    constexpr int64_t kAct = int64_t{1} << 40, kMain = int64_t{1} << 20;
    std::vector<int64_t> length(waits_.num_acts());
    std::vector<int>& from = before_;
    int last = -1;
    for (const int act : acts_here_) {
      const QueueKind& queue = QueueKindOf(plan_.actors[waits_.actor_of(act)].queue);
      const bool counts = plan_.copies_on_clock || !queue.of_tier;
      const int64_t own = (counts ? kAct : 0) + (queue.is_main ? kMain + NumInstructions(act) : 0);
      length[act] = own;
      from[act] = -1;
      for (const OwnWaits::Wait& wait : waits_.waits(act)) {
        if (wait.earlier || !IsHere(wait.on) || length[wait.on] + own <= length[act]) continue;
        length[act] = length[wait.on] + own;
        from[act] = wait.on;
      }
      if (last < 0 || length[act] > length[last]) last = act;
    }
    std::vector<int> line;
    for (int act = last; act >= 0; act = from[act]) line.push_back(act);
    std::reverse(line.begin(), line.end());
    return line;
  }

  // Sets `position_` by the clock. `after_`: the last clock act that each act here is or waits for; acts of the step
  // before have negative positions. `before_`: the first clock act that it is or that waits for it; acts of the next
  // step have positions from the clock's size on.
  void Compare() {
    for (const int act : acts_here_) position_[act] = kNone;
    for (int p = 0; p < size(); ++p) position_[clock_[p]] = p;
    LookBack();
    LookAhead();
    LookAmongAlike();
  }

  void LookBack() {
    for (const int act : acts_here_) {
      after_[act] = position_[act];
      for (const OwnWaits::Wait& wait : waits_.waits(act)) {
        if (!wait.earlier && IsHere(wait.on)) after_[act] = std::max(after_[act], after_[wait.on]);
      }
    }
    for (const int act : acts_here_) {
      int& latest = in_step_before_[act] = kNone;
      for (const OwnWaits::Wait& wait : waits_.waits(act)) {
        if (!IsHere(wait.on)) continue;
        latest = std::max(latest, wait.earlier ? after_[wait.on] : in_step_before_[wait.on]);
      }
    }
    for (const int act : acts_here_) {
      if (after_[act] < 0) after_[act] = in_step_before_[act] - size();
    }
  }

  void LookAhead() {
    const auto in_step = [&](std::vector<int>& found) {
      for (auto it = acts_here_.rbegin(); it != acts_here_.rend(); ++it) {
        for (const OwnWaits::Wait& wait : waits_.waits(*it)) {
          if (!wait.earlier && IsHere(wait.on)) found[wait.on] = std::min(found[wait.on], found[*it]);
        }
      }
    };
    for (const int act : acts_here_) before_[act] = position_[act] >= 0 ? position_[act] : -kNone;
    in_step(before_);
    for (const int act : acts_here_) in_step_after_[act] = -kNone;
    for (const int act : acts_here_) {
      for (const OwnWaits::Wait& wait : waits_.waits(act)) {
        int& earliest = in_step_after_[wait.on];
        if (wait.earlier && IsHere(wait.on)) earliest = std::min(earliest, before_[act]);
      }
    }
    in_step(in_step_after_);
    for (const int act : acts_here_) {
      if (before_[act] == -kNone && in_step_after_[act] != -kNone) before_[act] = in_step_after_[act] + size();
    }
  }

  // The same within a step, by acts of the same placement alone: so it holds on all of its ranks, of whatever class.
  void LookAmongAlike() {
    const auto placement = [&](int act) -> const Placement& { return plan_.actors[waits_.actor_of(act)].placement; };
    const auto counts = [&](int act, const OwnWaits::Wait& wait) {
      return !wait.earlier && IsHere(wait.on) && placement(act) == placement(wait.on);
    };
    for (const int act : acts_here_) {
      alike_after_[act] = position_[act] >= 0 ? position_[act] : kNone;
      alike_before_[act] = position_[act] >= 0 ? position_[act] : -kNone;
      for (const OwnWaits::Wait& wait : waits_.waits(act)) {
        if (counts(act, wait)) alike_after_[act] = std::max(alike_after_[act], alike_after_[wait.on]);
      }
    }
    for (auto it = acts_here_.rbegin(); it != acts_here_.rend(); ++it) {
      for (const OwnWaits::Wait& wait : waits_.waits(*it)) {
        if (counts(*it, wait)) alike_before_[wait.on] = std::min(alike_before_[wait.on], alike_before_[*it]);
      }
    }
  }

  // The longest part of the line that closes: its first act waits for its last one of the step before.
  void FindClock() {
    clock_ = LongestLine();
    Compare();
    int first = 0, length = 0;
    for (int p = 0; p < size(); ++p) {
      const int last = in_step_before_[clock_[p]];
      if (last - p + 1 > length) {
        first = p;
        length = last - p + 1;
      }
    }
    clock_ = std::vector<int>(clock_.begin() + first, clock_.begin() + first + length);
    Compare();
  }

  void StartTicks() {
    tick_.assign(1, 0);
    for (const int act : clock_) tick_.push_back(tick_.back() + 1 + NumInstructions(act));
    out_.clocks_[class_] = {std::max(1, tick_.back()), std::vector<int>(tick_.begin(), tick_.end() - 1)};
    covers_.clear();
    covers_by_turn_.clear();
  }

  // The gap before the act at a position, which may lie in another step.
  int64_t GapAt(int position) const {
    const int64_t step = FloorDiv(position, size());
    return step * tick_.back() + tick_[position - step * size()];
  }
  int64_t FirstTickOf(int act) const {
    if (position_[act] >= 0) return tick_[position_[act]] + 1;
    return after_[act] < -size() ? -tick_.back() : GapAt(after_[act] + 1);
  }
  bool IsOnClock(int act) const { return !clock_.empty() && position_[act] >= 0; }

  void SayActs() {
    for (const int act : acts_here_) {
      std::vector<Lifetimes::ActTime>& acts = out_.acts_[waits_.actor_of(act)];
      if (IsOnClock(act)) {
        acts.push_back({class_, true, tick_[position_[act]] + 1, 0});
      } else {
        const auto [first, last] = clock_.empty() ? std::pair<int64_t, int64_t>(0, 0) : GapsOf(act);
        acts.push_back({class_, false, static_cast<int>(first), static_cast<int>(last)});
      }
    }
  }

  // The gaps in which an act off the clock may happen.
  std::pair<int64_t, int64_t> GapsOf(int act) const {
    const int64_t first = FirstTickOf(act);
    return {first, before_[act] == -kNone ? first + tick_.back() : GapAt(before_[act])};
  }

  void SayRegisters() {
    for (const int actor : actors_[class_]) {
      for (const PhysicalPort& port : plan_.actors[actor].outputs) {
        const PhysicalRegister& reg = plan_.registers[port.reg];
        if (reg.slot_bytes == 0 || reg.variable >= 0 || !HasPlace(reg)) continue;
        SayRegister(port.reg);
      }
    }
  }

  // An actor by sending also acts on sources, which do not have its results.
  bool HasPlace(const PhysicalRegister& reg) const {
    const std::vector<int>& in = input_.classes.In(reg.placement);
    return std::binary_search(in.begin(), in.end(), class_);
  }

  void SayRegister(int id) {
    const PhysicalRegister& reg = plan_.registers[id];
    const PhysicalActor& from = plan_.actors[reg.producer];
    const int fills = reg.per_step ? 1 : NumActs(from);
    for (int fill = 0; fill < fills; ++fill) {
      const int writer = waits_.first_act(reg.producer) + fill * (NumActs(from) / fills);
      const int64_t first = clock_.empty() ? 0 : FirstTickOf(writer) + (IsOnClock(writer) ? FirstWrite(from, id) : 0);
      int64_t last = first;
      bool certain = IsOnClock(writer);
      for (size_t c = 0; c < reg.consumers.size(); ++c) {
        const int acts = NumActs(plan_.actors[reg.consumers[c]]) / fills;
        const int reader = waits_.first_act(reg.consumers[c]) + (fill + 1) * acts - 1;
        const auto [end, exact] = LastTickOf(reader, waits_.readings()[id][c]);
        certain = certain && exact;
        last = std::max(last, end);
      }
      out_.Add(class_, first, last, certain, out_.of_register_[id]);
    }
  }

  static int FirstWrite(const PhysicalActor& actor, int reg) {
    for (size_t i = 0; i < actor.instructions.size(); ++i) {
      for (const PhysicalOperand& x : actor.instructions[i].outputs) {
        if (x.place == PhysicalOperand::Place::kRegister && x.index == reg)
          return BeginOfUse(actor, static_cast<int>(i));
      }
    }
    return 0;
  }

  static constexpr int64_t kNever = int64_t{1} << 40;

  // The tick at which all instances of an act, on any rank, that read a register of this rank are done; and whether the
  // act itself ends then.
  std::pair<int64_t, bool> LastTickOf(int act, const Reading& reading) {
    if (clock_.empty() || !reading.reach.has_value() || !IsHere(act)) return {kNever, false};
    if (*reading.reach != 0) {
      int64_t cover = CoverOf(act, CoversOf(*reading.reach));
      const int back = reading.turn < 0 ? -1 : waits_.undoing(reading.turn);
      if (back >= 0) cover = std::min(cover, CoverOf(act, CoversByTurn(back)));
      return {cover, false};
    }
    if (!reading.own) return {kNever, false};
    if (IsOnClock(act)) return {tick_[position_[act]] + 1 + reading.last_instruction, true};
    return {before_[act] == -kNone ? kNever : GapAt(before_[act]), false};
  }

  // The gap before the first act of the clock that follows the act on all ranks that `covers` is of.
  int64_t CoverOf(int act, const std::vector<int>& covers) {
    const Placement& placement = plan_.actors[waits_.actor_of(act)].placement;
    const int at = alike_before_[act];  // follows it on each single rank
    if (at == -kNone) return kNever;
    const int cover = covers[at];
    if (cover < 0) return kNever;
    for (int p = at; p < cover; ++p) {
      if (plan_.actors[waits_.actor_of(clock_[p % size()])].placement != placement) return kNever;
    }
    return GapAt(cover);
  }

  // By position on the clock: the first later act that waits, on every rank, for results of this act, or of acts that
  // wait for it, on all ranks that differ along `axes`; -1: none. A boxing brings them, on the clock or beside it.
  const std::vector<int>& CoversOf(uint32_t axes) {
    const auto [it, inserted] = covers_.try_emplace(axes);
    if (!inserted) return it->second;
    return it->second = Covers([&](int act, const auto& found) {
             for (const OwnWaits::Wait& wait : waits_.waits(act)) {
               if (IsHere(wait.on) && GroupWaitedFor(act, wait.on, axes)) found(wait);
             }
           });
  }

  // The same of the one rank that each reads by the turn.
  const std::vector<int>& CoversByTurn(int turn) {
    const auto [it, inserted] = covers_by_turn_.try_emplace(turn);
    if (!inserted) return it->second;
    return it->second = Covers([&](int act, const auto& found) {
             for (const OwnWaits::TurnedWait& turned : waits_.turned_waits(act)) {
               if (turned.turn == turn && IsHere(turned.wait.on) && AreAlike(act, turned.wait.on)) found(turned.wait);
             }
           });
  }

  // `find(act, found)` calls `found` with every wait of an act that counts.
  template <typename Find>
  std::vector<int> Covers(Find find) {
    std::vector<int> next(size(), INT_MAX);  // by position of what is brought, round the clock
    for (const int act : acts_here_) {
      if (before_[act] == -kNone) continue;
      find(act, [&](const OwnWaits::Wait& wait) {
        if (alike_after_[wait.on] == kNone) return;
        const int waiter = before_[act] + (wait.earlier ? size() : 0);
        next[alike_after_[wait.on]] = std::min(next[alike_after_[wait.on]], waiter);
      });
    }
    std::vector<int> covers(size(), -1);
    int cover = INT_MAX;
    for (int p = 2 * size() - 1; p >= 0; --p) {
      const int at = next[p % size()];
      if (at != INT_MAX) cover = std::min(cover, at + (p < size() ? 0 : size()));
      if (p < size()) covers[p] = cover != INT_MAX && cover - p < size() ? cover : -1;
    }
    return covers;
  }

  bool AreAlike(int act, int other) const {
    return plan_.actors[waits_.actor_of(act)].placement == plan_.actors[waits_.actor_of(other)].placement;
  }

  // Whether on every rank `act` reads the results of `made` on all ranks that differ along `axes`.
  bool GroupWaitedFor(int act, int made, uint32_t axes) const {
    if (!AreAlike(act, made)) return false;
    const PhysicalActor& actor = plan_.actors[waits_.actor_of(act)];
    const int maker = waits_.actor_of(made);
    return std::any_of(actor.inputs.begin(), actor.inputs.end(), [&](const PhysicalPort& port) {
      const PhysicalRegister& reg = plan_.registers[port.reg];
      if (reg.producer != maker || reg.initially_filled > 0) return false;
      const auto consumer = std::find(reg.consumers.begin(), reg.consumers.end(), waits_.actor_of(act));
      const Reading& reading = waits_.readings()[port.reg][consumer - reg.consumers.begin()];
      return std::any_of(reading.groups.begin(), reading.groups.end(),
                         [&](uint32_t group) { return (group & axes) == axes; });
    });
  }

  const PlanInput& input_;
  const PhysicalPlan& plan_;
  Lifetimes& out_;
  const OwnWaits waits_;
  std::vector<std::vector<int>> actors_;  // by class
  std::vector<int> order_;                // of each act: its place in waits_.sorted()

  // Of the current class.
  int class_ = 0;
  std::vector<int> here_;  // by actor: the last class that it was found in
  std::vector<int> acts_here_;
  std::vector<int> clock_;
  std::vector<int> tick_;  // the gap before each act of the clock; behind them, the number of ticks
  std::vector<int> position_, after_, before_;  // by act
  std::vector<int> alike_after_, alike_before_;
  std::vector<int> in_step_before_, in_step_after_;
  std::map<uint32_t, std::vector<int>> covers_;
  std::map<int, std::vector<int>> covers_by_turn_;
};

void Normalize(std::vector<Ticks>& ticks) {
  std::sort(ticks.begin(), ticks.end(), [](const Ticks& a, const Ticks& b) {
    return std::tie(a.rank_class, a.first) < std::tie(b.rank_class, b.first);
  });
  size_t kept = 0;
  for (size_t i = 1; i < ticks.size(); ++i) {
    Ticks& last = ticks[kept];
    const Ticks& next = ticks[i];
    if (next.rank_class == last.rank_class && next.first <= last.last + 1) {
      last.last = std::max(last.last, next.last);
      last.certain = last.certain && next.certain;
    } else {
      ticks[++kept] = next;
    }
  }
  if (!ticks.empty()) ticks.resize(kept + 1);
}

Lifetimes::Lifetimes(const PlanInput& input, const PhysicalPlan& plan) { LifetimeFinder(input, plan, *this).Run(); }

std::vector<Ticks> Lifetimes::OfInstructions(int actor, int first, int last) const {
  std::vector<Ticks> ticks;
  for (const ActTime& act : acts_[actor]) {
    const int64_t begin = act.first + (act.on_clock ? first : 0);
    Add(act.rank_class, begin, act.on_clock ? act.first + last : act.last, act.on_clock, ticks);
  }
  Normalize(ticks);
  return ticks;
}

// Ticks are taken round the clock.
void Lifetimes::Add(int rank_class, int64_t first, int64_t last, bool certain, std::vector<Ticks>& out) const {
  const int64_t ticks = clocks_[rank_class].num_ticks;
  if (last - first + 1 >= ticks) {
    out.push_back({rank_class, 0, static_cast<int>(ticks) - 1, certain});
    return;
  }
  const int64_t turn = FloorDiv(first, ticks) * ticks;
  const int begin = static_cast<int>(first - turn), end = static_cast<int>(last - turn);
  out.push_back({rank_class, begin, static_cast<int>(std::min<int64_t>(end, ticks - 1)), certain});
  if (end >= ticks) out.push_back({rank_class, 0, static_cast<int>(end - ticks), certain});
}

std::vector<int> ClassesOf(const RankClasses& classes, const PhysicalActor& actor) {
  std::vector<int> result = classes.In(actor.placement);
  if (!actor.senders.has_value()) return result;
  for (const int c : classes.In(*actor.senders)) {
    if (std::find(result.begin(), result.end(), c) == result.end()) result.push_back(c);
  }
  std::sort(result.begin(), result.end());
  return result;
}

}  // namespace oneflow
