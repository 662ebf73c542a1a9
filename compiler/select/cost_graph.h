// A flat form of a search problem: the effects of each unit on each value that it touches, as numbered states, and the
// prices of boxings in tables. All parts of the search read costs from here.
//
//   unit "w, m, v, adamw"     port on value w    state 0: makes it S(0), reads it S(0)     option 0 -> state 0
//                                                state 1: makes it B,    reads it B        option 1 -> state 1
//                             port on value g    ...
//
// Costs are single numbers here (CostWeights): "seconds" are weighed ones, with what must be avoided among them.
//
// A port with one state is rigid: the value sees no difference between the options of its unit. Dists are renumbered
// per table of prices. Prices are asked for when first needed.
#pragma once

#include <algorithm>
#include <vector>

#include "compiler/select/search.h"

namespace oneflow {

// Sorts a list and removes duplicates.
inline void SortUnique(std::vector<int>& list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

class CostGraph {
 public:
  static constexpr int kNone = -1;

  struct State {
    int from = kNone;        // how the unit makes the value; kNone if another unit does
    std::vector<int> wants;  // how its nodes read it, without duplicates
    bool operator==(const State& o) const { return from == o.from && wants == o.wants; }
  };
  struct Port {
    int unit = 0, value = 0;
    std::vector<State> states;
    std::vector<int> state_of;  // by option of the unit
    bool rigid() const { return states.size() == 1; }
  };
  struct Unit {
    std::vector<double> seconds;  // by option
    std::vector<int> ports;       // in the order of its values
  };
  struct Value {
    int prices = 0;          // number of its table
    std::vector<int> ports;  // the producer's first
  };

  // Borrows the problem.
  CostGraph(const SearchProblem& problem, CostWeights weights);
  explicit CostGraph(const SearchProblem& problem) : CostGraph(problem, UsualWeights(problem)) {}

  // A boxing of a weight is as dear as a step that computes as fast as it can.
  static CostWeights UsualWeights(const SearchProblem& problem);

  const SearchProblem& problem() const { return problem_; }
  int num_units() const { return static_cast<int>(units_.size()); }
  int num_values() const { return static_cast<int>(values_.size()); }
  const Unit& unit(int id) const { return units_[id]; }
  const Value& value(int id) const { return values_[id]; }
  const Port& port(int id) const { return ports_[id]; }
  int num_ports() const { return static_cast<int>(ports_.size()); }
  int unit_of(int node) const { return unit_of_[node]; }

  // The price of `value` from one of its table's dists to another.
  double Price(int value, int from, int to) const {
    const PriceTable& table = tables_[values_[value].prices];
    double& price = table.prices[from * table.dists.size() + to];
    if (price < 0) price = weights_.Of(problem_.boxing(table.value, table.dists[from], table.dists[to]));
    return price;
  }

  // The cost of `value` if `state_of(port)` gives the state of each of its ports (null: takes no part).
  template <typename StateOf>
  double ValueSeconds(int value, const StateOf& state_of) const {
    const std::vector<int>& ports = values_[value].ports;
    return SecondsOfPorts(value, [&](size_t at) { return state_of(ports[at]); });
  }
  // The same, where state_at(i) is that of the value's i-th port.
  template <typename StateAt>
  double SecondsOfPorts(int value, const StateAt& state_at) const {
    const State* const made = state_at(0);
    if (made == nullptr) return 0;
    ++now_;
    double seconds = 0;
    for (size_t at = 0; at < values_[value].ports.size(); ++at) {
      const State* const state = state_at(at);
      if (state == nullptr) continue;
      for (int to : state->wants) {
        if (to == made->from || paid_at_[to] == now_) continue;
        paid_at_[to] = now_;
        seconds += Price(value, made->from, to);
      }
    }
    return seconds;
  }

  // The total if every unit has an option.
  double Total(const std::vector<int>& options) const;
  // The options of units as options of nodes, and back.
  std::vector<int> ToNodes(const std::vector<int>& options) const;
  std::vector<int> ToUnits(const std::vector<int>& choice) const;

 private:
  struct PriceTable {
    int value = 0;           // one that it holds for
    std::vector<int> dists;  // by number in this table
    std::vector<int> number_of;
    mutable std::vector<double> prices;  // row-major; negative: not asked for yet
  };

  void NumberPriceTables();
  void AddUnit(int id);
  int Number(int value, int dist);
  static int StateNumber(Port& port, State state, int guess);

  const SearchProblem& problem_;
  const CostWeights weights_;
  std::vector<Unit> units_;
  std::vector<Value> values_;
  std::vector<Port> ports_;
  std::vector<int> unit_of_;
  std::vector<PriceTable> tables_;
  mutable std::vector<int64_t> paid_at_;  // scratch of ValueSeconds, by dist: when it was last paid
  mutable int64_t now_ = 0;
};

}  // namespace oneflow
