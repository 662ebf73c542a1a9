#include "compiler/select/cost_graph.h"

#include <algorithm>
#include <map>

namespace oneflow {

CostWeights CostGraph::UsualWeights(const SearchProblem& problem) {
  double seconds = 0;
  for (const SearchProblem::Node& node : problem.nodes) {
    double least = kInfinity;
    for (const SearchProblem::Option& option : node.options) least = std::min(least, option.seconds);
    seconds += least;
  }
  return {seconds > 0 ? seconds : 1, 1};
}

CostGraph::CostGraph(const SearchProblem& problem, CostWeights weights)
    : problem_(problem),
      weights_(weights),
      units_(problem.units.size()),
      values_(problem.values.size()),
      unit_of_(problem.nodes.size()) {
  for (size_t unit = 0; unit < problem.units.size(); ++unit) {
    for (int node : problem.units[unit].nodes) unit_of_[node] = static_cast<int>(unit);
  }
  NumberPriceTables();
  for (size_t unit = 0; unit < problem.units.size(); ++unit) AddUnit(static_cast<int>(unit));
  for (size_t id = 0; id < values_.size(); ++id) {
    std::vector<int>& ports = values_[id].ports;
    const int producer = unit_of_[problem.values[id].producer];
    std::stable_partition(ports.begin(), ports.end(), [&](int port) { return ports_[port].unit == producer; });
  }
  size_t most = 0;
  for (PriceTable& table : tables_) {
    table.prices.assign(table.dists.size() * table.dists.size(), -1);
    most = std::max(most, table.dists.size());
  }
  paid_at_.assign(most, 0);
}

void CostGraph::NumberPriceTables() {
  std::map<int, int> table_of;
  for (size_t id = 0; id < values_.size(); ++id) {
    const int alike = problem_.values[id].alike;
    if (const auto it = table_of.find(alike); alike >= 0 && it != table_of.end()) {
      values_[id].prices = it->second;
      continue;
    }
    values_[id].prices = static_cast<int>(tables_.size());
    if (alike >= 0) table_of[alike] = values_[id].prices;
    tables_.emplace_back();
    tables_.back().value = static_cast<int>(id);
  }
}

int CostGraph::Number(int value, int dist) {
  PriceTable& table = tables_[values_[value].prices];
  if (dist >= static_cast<int>(table.number_of.size())) table.number_of.resize(dist + 1, kNone);
  int& number = table.number_of[dist];
  if (number == kNone) {
    number = static_cast<int>(table.dists.size());
    table.dists.push_back(dist);
  }
  return number;
}

// The number of `state` in the port; added if it is new. Options are listed with one axis counting fastest, so the
// state after the last found one (`guess`) is often the next.
int CostGraph::StateNumber(Port& port, State state, int guess) {
  const int n = static_cast<int>(port.states.size());
  for (int i = 0; i < n; ++i) {
    const int number = (guess + i) % n;
    if (port.states[number] == state) return number;
  }
  port.states.push_back(std::move(state));
  return n;
}

void CostGraph::AddUnit(int id) {
  const SearchProblem::Unit& it = problem_.units[id];
  // The touching nodes: {value, member, index among its inputs (or, from -1 downwards, its outputs)}.
  struct Touch {
    int value;
    size_t member;
    int index;
  };
  std::vector<Touch> touches;
  for (size_t m = 0; m < it.nodes.size(); ++m) {
    const SearchProblem::Node& node = problem_.nodes[it.nodes[m]];
    for (size_t i = 0; i < node.outputs.size(); ++i) touches.push_back({node.outputs[i], m, -1 - static_cast<int>(i)});
    for (size_t i = 0; i < node.inputs.size(); ++i) touches.push_back({node.inputs[i], m, static_cast<int>(i)});
  }
  std::stable_sort(touches.begin(), touches.end(), [](const Touch& a, const Touch& b) { return a.value < b.value; });
  const auto chosen = [&](size_t option, size_t member) -> const SearchProblem::Option& {
    return problem_.nodes[it.nodes[member]].options[it.options[option][member]];
  };
  for (size_t option = 0; option < it.options.size(); ++option) {
    double seconds = 0;
    for (size_t m = 0; m < it.nodes.size(); ++m) seconds += chosen(option, m).seconds;
    units_[id].seconds.push_back(weights_.seconds * seconds);
  }
  for (size_t begin = 0, end = 0; begin < touches.size(); begin = end) {
    while (end < touches.size() && touches[end].value == touches[begin].value) ++end;
    Port port{id, touches[begin].value, {}, {}};
    int last = 0;
    for (size_t option = 0; option < it.options.size(); ++option) {
      State state;
      for (size_t t = begin; t < end; ++t) {
        const SearchProblem::Option& o = chosen(option, touches[t].member);
        const int index = touches[t].index;
        if (index < 0) {
          state.from = Number(port.value, o.outputs[-1 - index]);
        } else {
          const int want = Number(port.value, o.inputs[index]);
          if (std::find(state.wants.begin(), state.wants.end(), want) == state.wants.end()) state.wants.push_back(want);
        }
      }
      std::sort(state.wants.begin(), state.wants.end());
      last = StateNumber(port, std::move(state), last);
      port.state_of.push_back(last);
    }
    values_[port.value].ports.push_back(num_ports());
    units_[id].ports.push_back(num_ports());
    ports_.push_back(std::move(port));
  }
}

double CostGraph::Total(const std::vector<int>& options) const {
  double total = 0;
  for (int unit = 0; unit < num_units(); ++unit) total += units_[unit].seconds[options[unit]];
  const auto state_of = [&](int id) {
    const Port& it = ports_[id];
    return &it.states[it.state_of[options[it.unit]]];
  };
  for (int value = 0; value < num_values(); ++value) total += ValueSeconds(value, state_of);
  return total;
}

std::vector<int> CostGraph::ToNodes(const std::vector<int>& options) const {
  std::vector<int> choice(problem_.nodes.size());
  for (int unit = 0; unit < num_units(); ++unit) {
    const SearchProblem::Unit& it = problem_.units[unit];
    for (size_t m = 0; m < it.nodes.size(); ++m) choice[it.nodes[m]] = it.options[options[unit]][m];
  }
  return choice;
}

std::vector<int> CostGraph::ToUnits(const std::vector<int>& choice) const {
  std::vector<int> options;
  for (const SearchProblem::Unit& unit : problem_.units) {
    const auto chosen = [&](const std::vector<int>& option) {
      for (size_t m = 0; m < unit.nodes.size(); ++m) {
        if (option[m] != choice[unit.nodes[m]]) return false;
      }
      return true;
    };
    const auto it = std::find_if(unit.options.begin(), unit.options.end(), chosen);
    options.push_back(static_cast<int>(it - unit.options.begin()));
  }
  return options;
}

}  // namespace oneflow
