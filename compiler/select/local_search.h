// Improving a choice move by move: the start of the search, its polish, and the neighbourhood that `explain` looks at.
//
//   sweep     forward along the data, each unit takes the option that suits the earlier choices; weights adapt to their
//             first reader
//   descent   single units take their best option, until none gains
//   regions   across each paid boxing, and from each unit that could compute faster, neighbours follow until no one
//             wants to move; the move stays if the total fell
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "compiler/select/cost_graph.h"

namespace oneflow {

class LocalSearch {
 public:
  // Borrows the graph.
  explicit LocalSearch(const CostGraph& graph);

  void Sweep();
  void Assume(const std::vector<int>& options);
  void Descend();
  // Regions and descent in turns until neither gains, or until a limit on work that takes about a second on a graph of
  // thousands of nodes.
  void MoveRegions();

  // By unit; all are chosen after Sweep() or Assume().
  const std::vector<int>& options() const { return options_; }
  double Seconds() const { return graph_.Total(options_); }

  // How many seconds it would add if `unit` took `option` and kept it, while the rest adapts as well as single moves
  // and one region can. Changes nothing; the options of all units then are written to `adapted` unless it is null.
  double Added(int unit, int option, std::vector<int>* adapted = nullptr);

 private:
  bool Counts(int unit) const { return options_[unit] >= 0 && (!only_moved_ || moved_[unit]); }
  double ValueCost(int value) const;
  double BoxingCost(int unit) const;
  double ComputeCost(int unit) const { return graph_.unit(unit).seconds[options_[unit]]; }
  // All costs that change with the unit. REQUIRES: the unit has an option.
  double LocalCost(int unit) const { return ComputeCost(unit) + BoxingCost(unit); }
  const CostGraph::State& StateOf(int port) const {
    const CostGraph::Port& it = graph_.port(port);
    return it.states[it.state_of[options_[it.unit]]];
  }
  int num_options(int unit) const { return static_cast<int>(graph_.unit(unit).seconds.size()); }

  template <typename Price>
  int Best(int unit, int fallback, const Price& price);

  void Assign(int unit);
  double LookAhead(int unit) const;
  double CheapestReading(int value, int from, int port) const;

  bool MoveRegionsOnce();
  bool MoveBoxedEnds(int value);
  template <typename Wanted>
  bool MoveEnd(int port, const Wanted& wanted);
  int FastestOption(int unit);
  bool MoveRegion(int unit, int option);
  void Begin();
  void Undo();
  void Grow(int unit, int option);
  int Follow(int unit);
  void Change(int unit, int option);
  void Settle(int held);
  bool spent() const { return looks_ >= kMaxLooks; }

  static constexpr int64_t kMaxLooks = 8'000'000;

  const CostGraph& graph_;
  std::vector<int> options_;                  // by unit; -1: not yet
  std::vector<std::vector<int>> values_;      // by unit: those that see its choice
  std::vector<std::vector<int>> neighbours_;  // by unit: those that see each other through a value
  std::vector<std::vector<double>> least_;    // by port and state: the least seconds of its unit in that state
  std::vector<bool> moved_;                   // by unit: in the region that is growing
  bool only_moved_ = false;                   // whether only they count
  std::vector<std::pair<int, int>> journal_;  // unit and its option before each change of the current region
  std::vector<int> region_;                   // the units of the last region, moved or not
  double delta_ = 0;                          // by the current region
  int64_t looks_ = 0;
};

}  // namespace oneflow
