// Waits between acts of the same rank that hold on every rank: the input of the clock of lifetimes.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/plan/physical_plan.h"

namespace oneflow {

// The acts of a step that are examined: two micro-batches, however many there are.
inline int NumActs(const PhysicalActor& actor) { return std::min(actor.acts_per_step, 2); }

// How the instances of an actor read a register.
struct Reading {
  bool own = false;                   // every instance reads the register of its own rank, and waits for it
  std::optional<uint32_t> reach = 0;  // only those of ranks that differ along these axes; nothing: any
  std::vector<uint32_t> groups;       // it reads all ranks that differ along each of these sets of axes
  int turn = -1;                      // each reads that of one other rank (OwnWaits::undoing); -1: otherwise
  int last_instruction = 0;
};

// The waits of one plan. Acts are numbered across its actors.
class OwnWaits {
 public:
  struct Wait {
    int on = 0;            // an act
    bool earlier = false;  // of the step before
  };

  OwnWaits(const PlanInput& input, const PhysicalPlan& plan);

  int num_acts() const { return static_cast<int>(actor_of_.size()); }
  int first_act(int actor) const { return first_act_[actor]; }
  int actor_of(int act) const { return actor_of_[act]; }
  const std::vector<Wait>& waits(int act) const { return waits_[act]; }
  // Waits of an act for acts of other ranks, by turns: each rank waits for one other.
  struct TurnedWait {
    Wait wait;
    int turn = 0;
  };
  const std::vector<TurnedWait>& turned_waits(int act) const { return turned_[act]; }
  // The turn by which ranks read those that read them by `turn`; -1: nobody reads so.
  int undoing(int turn) const { return undoing_[turn]; }
  // All acts, each behind the acts of the same step that it waits for; fewer if some wait in a cycle.
  const std::vector<int>& sorted() const { return sorted_; }
  // By register: of each consumer.
  const std::vector<std::vector<Reading>>& readings() const { return readings_; }

 private:
  // What it is to be behind; nothing if that follows from others.
  std::optional<Wait> WaitFor(int other, int64_t other_act) const;
  void Add(int act, int other, int64_t other_act);
  void AddRegister(int id);
  Reading ReadingOf(const PhysicalActor& actor, int id);
  int NumberOfTurn(const Placement& from, const Placement& to);
  void Sort();

  const PlanInput& input_;
  const PhysicalPlan& plan_;
  std::vector<int> first_act_;  // of each actor
  std::vector<int> actor_of_;   // of each act
  std::vector<std::vector<Wait>> waits_;
  std::vector<std::vector<TurnedWait>> turned_;
  std::map<std::vector<std::pair<int, int>>, int> turns_;  // by pairs of a rank and the one that it reads
  std::map<std::pair<Placement, Placement>, int> turn_of_;
  std::vector<int> undoing_;
  std::vector<int> sorted_;
  std::vector<std::vector<Reading>> readings_;
};

}  // namespace oneflow
