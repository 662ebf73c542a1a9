#include "compiler/select/search.h"

#include <algorithm>
#include <deque>
#include <limits>

namespace oneflow {
namespace {

constexpr double kEpsilon = 1e-11;  // seconds; below this two prices are the same
constexpr int kMaxSweeps = 20;      // in practice three or four suffice
constexpr int kMaxRounds = 8;
constexpr int kMaxRegion = 96;  // units moved together; a transformer block forward and backward has about sixty
constexpr int kLookAhead = 2;   // readers of a value that the forward sweep considers

class Searcher {
 public:
  explicit Searcher(const SearchProblem& problem)
      : problem_(problem),
        choice_(problem.nodes.size(), -1),
        unit_of_(problem.nodes.size()),
        unit_choice_(problem.units.size(), -1),
        unit_values_(problem.units.size()),
        neighbours_(problem.units.size()),
        moved_(problem.nodes.size(), false) {
    for (size_t unit = 0; unit < problem.units.size(); ++unit) {
      for (int node : problem.units[unit].nodes) unit_of_[node] = static_cast<int>(unit);
    }
    for (size_t unit = 0; unit < problem.units.size(); ++unit) FindSurroundings(static_cast<int>(unit));
  }

  SearchResult Run() {
    Start();
    for (int round = 0; round < kMaxRounds; ++round) {
      Descend();
      if (!MoveRegions()) break;
    }
    return {choice_, Total()};
  }

 private:
  // --- prices
  // ---------------------------------------------------------------------------------------------------------

  // While a region grows, only its members count.
  bool Counts(int node) const { return choice_[node] >= 0 && (!only_moved_ || moved_[node]); }

  const SearchProblem::Option& Chosen(int node) const { return problem_.nodes[node].options[choice_[node]]; }

  double ValueCost(int id) const {
    const SearchProblem::Value& value = problem_.values[id];
    if (!Counts(value.producer)) return 0;
    const int from = Chosen(value.producer).outputs[value.output];
    double cost = 0;
    paid_.clear();
    for (const auto& [reader, input] : value.readers) {
      if (!Counts(reader)) continue;
      const int to = Chosen(reader).inputs[input];
      if (to == from || std::find(paid_.begin(), paid_.end(), to) != paid_.end()) continue;
      paid_.push_back(to);
      cost += problem_.boxing(id, from, to);
    }
    return cost;
  }

  double ComputeCost(int unit) const {
    double cost = 0;
    for (int node : problem_.units[unit].nodes) cost += Chosen(node).seconds;
    return cost;
  }

  double BoxingCost(int unit) const {
    double cost = 0;
    for (int value : unit_values_[unit]) cost += ValueCost(value);
    return cost;
  }

  // Everything that changes when the unit does. REQUIRES: the unit has an option.
  double LocalCost(int unit) const { return ComputeCost(unit) + BoxingCost(unit); }

  double Total() const {
    double total = 0;
    for (size_t unit = 0; unit < problem_.units.size(); ++unit) total += ComputeCost(static_cast<int>(unit));
    for (size_t value = 0; value < problem_.values.size(); ++value) total += ValueCost(static_cast<int>(value));
    return total;
  }

  // --- moves
  // ----------------------------------------------------------------------------------------------------------

  void FindSurroundings(int unit) {
    for (int node : problem_.units[unit].nodes) {
      for (int value : problem_.nodes[node].inputs) unit_values_[unit].push_back(value);
      for (int value : problem_.nodes[node].outputs) unit_values_[unit].push_back(value);
    }
    SortUnique(unit_values_[unit]);
    for (int value : unit_values_[unit]) {
      neighbours_[unit].push_back(unit_of_[problem_.values[value].producer]);
      for (const auto& reader : problem_.values[value].readers) neighbours_[unit].push_back(unit_of_[reader.first]);
    }
    SortUnique(neighbours_[unit]);
  }

  static void SortUnique(std::vector<int>& list) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }

  void Set(int unit, int option) {
    unit_choice_[unit] = option;
    const SearchProblem::Unit& u = problem_.units[unit];
    for (size_t i = 0; i < u.nodes.size(); ++i) choice_[u.nodes[i]] = u.options[option][i];
  }

  // The option with the least `price`, evaluated with the option set; `fallback` (the current one) wins ties.
  template <typename Price>
  int Best(int unit, int fallback, const Price& price) {
    int best = fallback;
    double least = std::numeric_limits<double>::infinity();
    if (fallback >= 0) {
      Set(unit, fallback);
      least = price();
    }
    for (int option = 0; option < static_cast<int>(problem_.units[unit].options.size()); ++option) {
      if (option == fallback) continue;
      Set(unit, option);
      const double cost = price();
      if (cost < least - kEpsilon) {
        least = cost;
        best = option;
      }
    }
    Set(unit, best);
    return best;
  }

  // --- the start
  // ------------------------------------------------------------------------------------------------------

  // Sweeps forward along the data; whatever else a node reads (weights and what is made of them) adapts to it.
  void Start() {
    for (size_t node = 0; node < problem_.nodes.size(); ++node) {
      if (problem_.nodes[node].streams) Assign(unit_of_[node]);
    }
    for (size_t node = 0; node < problem_.nodes.size(); ++node) Assign(unit_of_[node]);
  }

  void Assign(int unit) {
    std::deque<int> queue{unit};
    while (!queue.empty()) {
      const int next = queue.front();
      queue.pop_front();
      if (unit_choice_[next] >= 0) continue;
      Best(next, -1, [&] { return LocalCost(next) + LookAhead(next); });
      for (int node : problem_.units[next].nodes) {
        for (int value : problem_.nodes[node].inputs) {
          const int producer = problem_.values[value].producer;
          if (!problem_.nodes[producer].streams) queue.push_back(unit_of_[producer]);
        }
      }
    }
  }

  // What the next readers would have to pay at least.
  double LookAhead(int unit) const {
    double cost = 0;
    for (int node : problem_.units[unit].nodes) {
      for (size_t i = 0; i < problem_.nodes[node].outputs.size(); ++i) {
        int left = kLookAhead;
        const int value = problem_.nodes[node].outputs[i];
        for (const auto& [reader, input] : problem_.values[value].readers) {
          if (choice_[reader] >= 0 || left-- == 0) continue;
          if (left < 0) break;
          cost += CheapestReading(value, Chosen(node).outputs[i], reader, input);
        }
      }
    }
    return cost;
  }

  double CheapestReading(int value, int from, int reader, int input) const {
    double least = std::numeric_limits<double>::infinity();
    for (const SearchProblem::Option& option : problem_.nodes[reader].options) {
      if (option.seconds >= least) continue;
      least = std::min(least, option.seconds + problem_.boxing(value, from, option.inputs[input]));
    }
    return least;
  }

  // --- improvement
  // ----------------------------------------------------------------------------------------------------

  // Moves single units until none gains.
  void Descend() {
    for (int sweep = 0; sweep < kMaxSweeps; ++sweep) {
      bool changed = false;
      for (size_t i = 0; i < problem_.units.size(); ++i) {
        const int unit = static_cast<int>(i);
        const int before = unit_choice_[unit];
        if (problem_.units[unit].options.size() > 1) {
          changed = Best(unit, before, [&] { return LocalCost(unit); }) != before || changed;
        }
      }
      if (!changed) return;
    }
  }

  // Descent stops where every single move costs a boxing. From there: for every value that is boxed, one of its ends
  // takes the other's type; and every unit that could compute faster does so; each time the region around it follows.
  bool MoveRegions() {
    bool gained = false;
    for (size_t id = 0; id < problem_.values.size(); ++id) gained = MoveBoxedEnds(static_cast<int>(id)) || gained;
    std::vector<bool> tried(problem_.units.size(), false);
    for (size_t i = 0; i < problem_.units.size(); ++i) {
      const int unit = static_cast<int>(i);
      const int fastest = FastestOption(unit);
      if (tried[i] || fastest == unit_choice_[i]) continue;
      gained = MoveRegion(unit, fastest) || gained;
      for (int member : region_) tried[member] = true;  // starting from them would grow much the same region
    }
    return gained;
  }

  bool MoveBoxedEnds(int id) {
    const SearchProblem::Value& value = problem_.values[id];
    bool gained = false;
    for (const auto& [reader, input] : value.readers) {
      const int from = Chosen(value.producer).outputs[value.output];
      const int to = Chosen(reader).inputs[input];
      if (from == to || problem_.boxing(id, from, to) <= kEpsilon) continue;
      gained =
          MoveEnd(value.producer, [&, out = value.output](const auto& o) { return o.outputs[out] == to; }) || gained;
      if (Chosen(value.producer).outputs[value.output] != from || Chosen(reader).inputs[input] != to) continue;
      gained = MoveEnd(reader, [&, in = input](const auto& o) { return o.inputs[in] == from; }) || gained;
    }
    return gained;
  }

  // The option that computes fastest; the current one if none is faster.
  int FastestOption(int unit) {
    const int current = unit_choice_[unit];
    const int fastest = Best(unit, current, [&] { return ComputeCost(unit); });
    Set(unit, current);
    return fastest;
  }

  template <typename Wanted>
  bool MoveEnd(int node, const Wanted& wanted) {
    const int unit = unit_of_[node];
    const SearchProblem::Unit& u = problem_.units[unit];
    const size_t member = std::find(u.nodes.begin(), u.nodes.end(), node) - u.nodes.begin();
    for (size_t option = 0; option < u.options.size(); ++option) {
      if (!wanted(problem_.nodes[node].options[u.options[option][member]])) continue;
      if (static_cast<int>(option) != unit_choice_[unit] && MoveRegion(unit, static_cast<int>(option))) return true;
    }
    return false;
  }

  // Moves `unit` to `option`, then, outwards, every unit that is at odds with the region to what suits the region best;
  // keeps the result if the whole got cheaper.
  bool MoveRegion(int unit, int option) {
    journal_.clear();
    delta_ = 0;
    region_ = {unit};
    std::vector<bool> seen(problem_.units.size(), false);
    seen[unit] = true;
    Change(unit, option);
    Mark(unit, true);
    std::deque<int> queue(neighbours_[unit].begin(), neighbours_[unit].end());
    while (!queue.empty() && region_.size() < kMaxRegion) {
      const int next = queue.front();
      queue.pop_front();
      if (seen[next]) continue;
      const int follow = Follow(next);
      if (follow == unit_choice_[next]) continue;  // at peace with the region so far; may be asked again
      seen[next] = true;
      Change(next, follow);
      Mark(next, true);
      region_.push_back(next);
      queue.insert(queue.end(), neighbours_[next].begin(), neighbours_[next].end());
    }
    for (int member : region_) Mark(member, false);
    Settle();
    if (delta_ < -kEpsilon) return true;
    for (auto it = journal_.rbegin(); it != journal_.rend(); ++it) Set(it->first, it->second);
    return false;
  }

  void Mark(int unit, bool moved) {
    for (int node : problem_.units[unit].nodes) moved_[node] = moved;
  }

  // The option that suits the moved region best if the current one is at odds with it.
  int Follow(int unit) {
    const int current = unit_choice_[unit];
    only_moved_ = true;
    Mark(unit, true);
    int best = current;
    if (BoxingCost(unit) > kEpsilon) best = Best(unit, current, [&] { return LocalCost(unit); });
    Mark(unit, false);
    only_moved_ = false;
    Set(unit, current);
    return best;
  }

  void Change(int unit, int option) {
    journal_.emplace_back(unit, unit_choice_[unit]);
    const double before = LocalCost(unit);
    Set(unit, option);
    delta_ += LocalCost(unit) - before;
  }

  // One sweep of single moves around the region.
  void Settle() {
    std::vector<int> around;
    for (int unit : region_) around.insert(around.end(), neighbours_[unit].begin(), neighbours_[unit].end());
    SortUnique(around);
    for (int unit : around) {
      const int current = unit_choice_[unit];
      const int best = Best(unit, current, [&] { return LocalCost(unit); });
      if (best == current) continue;
      Set(unit, current);
      Change(unit, best);
    }
  }

  const SearchProblem& problem_;
  std::vector<int> choice_;       // option by node; -1: not yet
  std::vector<int> unit_of_;      // by node
  std::vector<int> unit_choice_;  // by unit; -1: not yet
  std::vector<std::vector<int>> unit_values_, neighbours_;
  std::vector<bool> moved_;  // by node: in the region that is growing
  bool only_moved_ = false;
  std::vector<std::pair<int, int>> journal_;  // unit and its option before each change of the current region
  std::vector<int> region_;                   // the units of the region that was grown last, moved or not
  double delta_ = 0;                          // by the current region
  mutable std::vector<int> paid_;             // scratch of ValueCost
};

}  // namespace

SearchResult Search(const SearchProblem& problem) { return Searcher(problem).Run(); }

}  // namespace oneflow
