#include "compiler/select/local_search.h"

#include <algorithm>
#include <deque>

namespace oneflow {
namespace {

constexpr int kMaxSweeps = 20;  // in practice three or four suffice
constexpr int kMaxRounds = 8;
constexpr int kMaxRegion = 96;  // units moved together; a transformer block forward and backward has about sixty
constexpr int kLookAhead = 2;   // readers of a value that the forward sweep considers

}  // namespace

LocalSearch::LocalSearch(const CostGraph& graph)
    : graph_(graph),
      options_(graph.num_units(), -1),
      values_(graph.num_units()),
      neighbours_(graph.num_units()),
      least_(graph.num_ports()),
      moved_(graph.num_units(), false) {
  for (int value = 0; value < graph.num_values(); ++value) {
    std::vector<int> concerned;
    for (int port : graph.value(value).ports) {
      if (!graph.port(port).rigid()) concerned.push_back(graph.port(port).unit);
    }
    for (int unit : concerned) {
      values_[unit].push_back(value);
      neighbours_[unit].insert(neighbours_[unit].end(), concerned.begin(), concerned.end());
    }
  }
  for (std::vector<int>& list : neighbours_) SortUnique(list);
  for (int id = 0; id < graph.num_ports(); ++id) {
    const CostGraph::Port& port = graph.port(id);
    least_[id].assign(port.states.size(), kInfinity);
    for (size_t option = 0; option < port.state_of.size(); ++option) {
      double& least = least_[id][port.state_of[option]];
      least = std::min(least, graph.unit(port.unit).seconds[option]);
    }
  }
}

// --- prices
// -----------------------------------------------------------------------------------------------------------

double LocalSearch::ValueCost(int value) const {
  return graph_.ValueSeconds(value, [&](int port) -> const CostGraph::State* {
    return Counts(graph_.port(port).unit) ? &StateOf(port) : nullptr;
  });
}

double LocalSearch::BoxingCost(int unit) const {
  double cost = 0;
  for (int value : values_[unit]) cost += ValueCost(value);
  return cost;
}

// The option with the least `price`, evaluated with the option set; `fallback` (the current one) wins ties.
template <typename Price>
int LocalSearch::Best(int unit, int fallback, const Price& price) {
  looks_ += num_options(unit) * static_cast<int64_t>(1 + values_[unit].size());
  int best = fallback;
  double least = kInfinity;
  if (fallback >= 0) {
    options_[unit] = fallback;
    least = price();
  }
  for (int option = 0; option < num_options(unit); ++option) {
    if (option == fallback) continue;
    options_[unit] = option;
    const double cost = price();
    if (cost < least - kSameSeconds) {
      least = cost;
      best = option;
    }
  }
  options_[unit] = best;
  return best;
}

// --- the start
// --------------------------------------------------------------------------------------------------------

void LocalSearch::Sweep() {
  const std::vector<SearchProblem::Node>& nodes = graph_.problem().nodes;
  for (size_t node = 0; node < nodes.size(); ++node) {
    if (nodes[node].streams) Assign(graph_.unit_of(static_cast<int>(node)));
  }
  for (size_t node = 0; node < nodes.size(); ++node) Assign(graph_.unit_of(static_cast<int>(node)));
}

void LocalSearch::Assume(const std::vector<int>& options) { options_ = options; }

void LocalSearch::Assign(int unit) {
  const SearchProblem& problem = graph_.problem();
  std::deque<int> queue{unit};
  while (!queue.empty()) {
    const int next = queue.front();
    queue.pop_front();
    if (options_[next] >= 0) continue;
    Best(next, -1, [&] { return LocalCost(next) + LookAhead(next); });
    for (int node : problem.units[next].nodes) {
      for (int value : problem.nodes[node].inputs) {
        const int producer = problem.values[value].producer;
        if (!problem.nodes[producer].streams) queue.push_back(graph_.unit_of(producer));
      }
    }
  }
}

// The least that the next readers would have to pay.
double LocalSearch::LookAhead(int unit) const {
  double cost = 0;
  for (int id : graph_.unit(unit).ports) {
    const CostGraph::State& made = StateOf(id);
    if (made.from == CostGraph::kNone || graph_.port(id).rigid()) continue;
    int left = kLookAhead;
    const int value = graph_.port(id).value;
    for (int reader : graph_.value(value).ports) {
      if (options_[graph_.port(reader).unit] >= 0) continue;
      if (left-- == 0) break;
      cost += CheapestReading(value, made.from, reader);
    }
  }
  return cost;
}

double LocalSearch::CheapestReading(int value, int from, int port) const {
  double least = kInfinity;
  for (size_t state = 0; state < least_[port].size(); ++state) {
    double cost = least_[port][state];
    if (cost >= least) continue;
    for (int to : graph_.port(port).states[state].wants) cost += to == from ? 0 : graph_.Price(value, from, to);
    least = std::min(least, cost);
  }
  return least;
}

// --- improvement
// ------------------------------------------------------------------------------------------------------

void LocalSearch::Descend() {
  for (int sweep = 0; sweep < kMaxSweeps; ++sweep) {
    bool changed = false;
    for (int unit = 0; unit < graph_.num_units(); ++unit) {
      const int before = options_[unit];
      if (num_options(unit) > 1) changed = Best(unit, before, [&] { return LocalCost(unit); }) != before || changed;
    }
    if (!changed) return;
  }
}

void LocalSearch::MoveRegions() {
  Descend();
  for (int round = 0; round < kMaxRounds && !spent(); ++round) {
    if (!MoveRegionsOnce()) return;
    Descend();
  }
}

bool LocalSearch::MoveRegionsOnce() {
  bool gained = false;
  for (int value = 0; value < graph_.num_values() && !spent(); ++value) gained = MoveBoxedEnds(value) || gained;
  std::vector<bool> tried(graph_.num_units(), false);
  for (int unit = 0; unit < graph_.num_units() && !spent(); ++unit) {
    const int fastest = FastestOption(unit);
    if (tried[unit] || fastest == options_[unit]) continue;
    gained = MoveRegion(unit, fastest) || gained;
    for (int member : region_) tried[member] = true;  // starting from them would grow much the same region
  }
  return gained;
}

// Each end of a paid boxing takes the other's type.
bool LocalSearch::MoveBoxedEnds(int value) {
  const std::vector<int>& ports = graph_.value(value).ports;
  bool gained = false;
  for (size_t reader = 0; reader < ports.size(); ++reader) {
    for (const int to : std::vector<int>(StateOf(ports[reader]).wants)) {
      const int from = StateOf(ports[0]).from;
      const auto still_boxed = [&] {
        const std::vector<int>& wants = StateOf(ports[reader]).wants;
        return StateOf(ports[0]).from == from && std::find(wants.begin(), wants.end(), to) != wants.end();
      };
      if (from == to || !still_boxed() || graph_.Price(value, from, to) <= kSameSeconds) continue;
      gained = MoveEnd(ports[0], [&](const CostGraph::State& state) { return state.from == to; }) || gained;
      if (reader == 0 || !still_boxed()) continue;
      gained =
          MoveEnd(ports[reader], [&](const CostGraph::State& state) { return state.wants == std::vector{from}; }) ||
          gained;
    }
  }
  return gained;
}

// The option that computes fastest; the current one if none is faster.
int LocalSearch::FastestOption(int unit) {
  const int current = options_[unit];
  const int fastest = Best(unit, current, [&] { return ComputeCost(unit); });
  options_[unit] = current;
  return fastest;
}

template <typename Wanted>
bool LocalSearch::MoveEnd(int id, const Wanted& wanted) {
  const CostGraph::Port& port = graph_.port(id);
  for (int option = 0; option < num_options(port.unit) && !spent(); ++option) {
    if (!wanted(port.states[port.state_of[option]])) continue;
    if (option != options_[port.unit] && MoveRegion(port.unit, option)) return true;
  }
  return false;
}

// --- regions
// ----------------------------------------------------------------------------------------------------------

bool LocalSearch::MoveRegion(int unit, int option) {
  Begin();
  Grow(unit, option);
  Settle(-1);
  if (delta_ < -kSameSeconds) return true;
  Undo();
  return false;
}

double LocalSearch::Added(int unit, int option, std::vector<int>* adapted) {
  double least = kInfinity;
  for (const bool with_region : {false, true}) {
    Begin();
    if (with_region) {
      Grow(unit, option);
    } else {
      region_ = {unit};
      Change(unit, option);
    }
    double before = kInfinity;
    for (int sweep = 0; sweep < kMaxSweeps && delta_ < before - kSameSeconds; ++sweep) {
      before = delta_;
      Settle(unit);
      for (const auto& [changed, old] : journal_)
        region_.push_back(changed);  // adapted units belong to the surroundings
      SortUnique(region_);
    }
    if (delta_ < least && adapted != nullptr) *adapted = options_;
    least = std::min(least, delta_);
    Undo();
  }
  return least;
}

void LocalSearch::Begin() {
  journal_.clear();
  region_.clear();
  delta_ = 0;
}

void LocalSearch::Undo() {
  for (auto it = journal_.rbegin(); it != journal_.rend(); ++it) options_[it->first] = it->second;
}

// Moves `unit` to `option`; then, outwards, every unit that conflicts with the region takes the option that suits it
// best.
void LocalSearch::Grow(int unit, int option) {
  region_ = {unit};
  Change(unit, option);
  moved_[unit] = true;
  std::deque<int> queue(neighbours_[unit].begin(), neighbours_[unit].end());
  while (!queue.empty() && region_.size() < kMaxRegion) {
    const int next = queue.front();
    queue.pop_front();
    if (moved_[next]) continue;
    const int follow = Follow(next);
    if (follow == options_[next]) continue;  // no conflict so far; may be asked again
    Change(next, follow);
    moved_[next] = true;
    region_.push_back(next);
    queue.insert(queue.end(), neighbours_[next].begin(), neighbours_[next].end());
  }
  for (int member : region_) moved_[member] = false;
}

// The option that suits the moved region best, if the current one conflicts with it.
int LocalSearch::Follow(int unit) {
  const int current = options_[unit];
  only_moved_ = true;
  moved_[unit] = true;
  int best = current;
  if (BoxingCost(unit) > kSameSeconds) best = Best(unit, current, [&] { return LocalCost(unit); });
  moved_[unit] = false;
  only_moved_ = false;
  options_[unit] = current;
  return best;
}

void LocalSearch::Change(int unit, int option) {
  journal_.emplace_back(unit, options_[unit]);
  const double before = LocalCost(unit);
  options_[unit] = option;
  delta_ += LocalCost(unit) - before;
}

// One sweep of single moves around the region; `held` stays.
void LocalSearch::Settle(int held) {
  std::vector<int> around;
  for (int unit : region_) around.insert(around.end(), neighbours_[unit].begin(), neighbours_[unit].end());
  SortUnique(around);
  for (int unit : around) {
    if (unit == held) continue;
    const int current = options_[unit];
    const int best = Best(unit, current, [&] { return LocalCost(unit); });
    if (best == current) continue;
    options_[unit] = current;
    Change(unit, best);
  }
}

}  // namespace oneflow
