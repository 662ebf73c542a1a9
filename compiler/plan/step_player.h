// Plays one step of a wait graph with counters, one act at a time; the caller decides which.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "compiler/plan/liveness.h"

namespace oneflow {

class StepPlayer {
 public:
  // Borrows the graph. REQUIRES: CheckRates is OK.
  explicit StepPlayer(const WaitGraph& graph);

  // Whether `actor`, and all that act together with it, can act now.
  bool CanAct(int actor) const;
  // REQUIRES: CanAct(actor).
  void Act(int actor);
  // Acts with these actors, and with all that can act then, until none can. The end does not depend on the order of
  // acts: an act that can happen can still happen after any other.
  void PlayFrom(std::deque<int> actors);

  // The waits of `actor` itself: the next acts of others. Empty if it can act, or has no acts left.
  std::vector<Wait> WaitsOf(int actor) const;

  // Calls visit(other) for every actor that an act of `actor` may have unblocked.
  template <typename Visit>
  void ForEachTouched(int actor, Visit&& visit) const {
    for (int one : with_[actor]) {
      for (const auto& [r, c] : in_[one]) visit(graph_.registers[r].producer.actor);
      for (size_t r : out_[one]) {
        for (const WaitGraph::Port& consumer : graph_.registers[r].consumers) visit(consumer.actor);
      }
      for (int order : orders_of_[one]) visit(graph_.orders[order][position_[order] % graph_.orders[order].size()]);
    }
  }

  // "'name' at act n", for actors that have acts left.
  std::vector<std::string> Unfinished() const;
  // Whether every register holds as many full slots as at the start, for every reader.
  bool IsBack() const;

 private:
  // Counters of one register.
  struct Marking {
    int64_t filled = 0;          // slots published so far, with those full at the start
    std::vector<int64_t> freed;  // by each consumer
  };

  bool IsDone(int actor) const { return acts_[actor] == graph_.actors[actor].acts_per_step; }
  // Of an order that is not finished.
  int Turn(int order) const { return graph_.orders[order][position_[order]]; }
  bool OneCanAct(int actor) const;
  void ActOne(int actor);

  const WaitGraph& graph_;
  std::vector<int> acts_;
  std::vector<std::vector<std::pair<size_t, size_t>>> in_;  // (register, which consumer)
  std::vector<std::vector<size_t>> out_;
  std::vector<Marking> marking_;
  std::vector<std::vector<int>> with_;       // all that act together with an actor, itself included
  std::vector<std::vector<int>> orders_of_;  // which orders name it
  std::vector<size_t> position_;             // in each order: whose turn it is
};

}  // namespace oneflow
