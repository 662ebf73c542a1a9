#include "compiler/select/factors.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"

namespace oneflow {
namespace {

constexpr double kRoundingSeconds = 1e-14;   // seconds, of sums of a few prices
constexpr double kMaxValueTable = 1 << 16;   // entries; a value of more combinations stays wide
constexpr double kMaxComparisons = 1 << 24;  // entries times classes that are compared for one matrix of differences

// The product of the sizes behind `side`.
int64_t Stride(const Factor& factor, size_t side) {
  int64_t stride = 1;
  for (size_t s = side + 1; s < factor.sides.size(); ++s) stride *= factor.sides[s].size;
  return stride;
}

// Counts `digits` up, the last fastest; false after the last.
bool Next(const std::vector<Factor::Side>& sides, std::vector<int>& digits) {
  for (size_t s = digits.size(); s-- > 0;) {
    if (++digits[s] < sides[s].size) return true;
    digits[s] = 0;
  }
  return false;
}

// What a value costs if each of its ports has one of its states. That follows from how the value is made and from the
// set of dists that any port wants, and of such sets there are few: each is priced once.
class ChoicePrices {
 public:
  using State = CostGraph::State;

  // Borrows both. `states`: by port of the value. At first each port has its first state.
  ChoicePrices(const CostGraph& graph, int value, const std::vector<std::vector<const State*>>& states)
      : graph_(graph), value_(value), states_(states), chosen_(states.size(), 0) {
    for (const auto& of_port : states) {
      std::vector<uint64_t>& sets = wanted_.emplace_back();
      for (const State* const state : of_port) sets.push_back(SetOf(*state));
    }
  }

  void Choose(size_t port, int state) { chosen_[port] = state; }

  double Seconds() {
    const auto price = [&] { return graph_.SecondsOfPorts(value_, [&](size_t port) { return StateOf(port); }); };
    if (number_.size() > kMostDists) return price();
    uint64_t wanted = 0;
    for (size_t port = 0; port < chosen_.size(); ++port) wanted |= wanted_[port][chosen_[port]];
    const auto [it, is_new] = prices_.try_emplace({StateOf(0)->from, wanted}, 0);
    if (is_new) it->second = price();
    return it->second;
  }

 private:
  static constexpr size_t kMostDists = 64;

  const State* StateOf(size_t port) const { return states_[port][chosen_[port]]; }
  uint64_t SetOf(const State& state) {
    uint64_t set = 0;
    for (const int dist : state.wants) {
      const size_t number = number_.try_emplace(dist, number_.size()).first->second;
      if (number < kMostDists) set |= uint64_t{1} << number;
    }
    return set;
  }

  const CostGraph& graph_;
  const int value_;
  const std::vector<std::vector<const State*>>& states_;
  std::vector<int> chosen_;                                       // by port
  std::vector<std::vector<uint64_t>> wanted_;                     // by port and state
  std::map<int, size_t> number_;                                  // of dists that are wanted
  absl::flat_hash_map<std::pair<int, uint64_t>, double> prices_;  // by how it is made, and what is wanted
};

}  // namespace

double Factor::Volume() const {
  double volume = 1;
  for (const Side& side : sides) volume = std::min(1e18, volume * side.size);
  return volume;
}

Factors::Factors(const CostGraph& graph, double upper)
    : graph_(graph),
      upper_(upper * (1 + 1e-9)),
      domains_(graph.num_units()),
      seconds_(graph.num_units()),
      factors_of_(graph.num_units()),
      queued_(graph.num_units(), false) {
  for (int unit = 0; unit < graph.num_units(); ++unit) {
    seconds_[unit] = graph.unit(unit).seconds;
    for (size_t option = 0; option < seconds_[unit].size(); ++option)
      domains_[unit].push_back(static_cast<int>(option));
  }
  for (int value = 0; value < graph.num_values(); ++value) AddValue(value);
  for (int unit = 0; unit < graph.num_units(); ++unit) Enqueue(unit);
}

void Factors::AddValue(int value) {
  Factor factor;
  factor.value = value;
  for (int id : graph_.value(value).ports) {
    const CostGraph::Port& port = graph_.port(id);
    if (port.rigid()) continue;
    const int size = static_cast<int>(port.states.size());
    factor.sides.push_back({port.unit, port.state_of, size});
    factor.ports.push_back(id);
    factor.states.emplace_back();
    for (int state = 0; state < size; ++state) factor.states.back().push_back(state);
  }
  Add(std::move(factor));
}

void Factors::Add(Factor factor) {
  const int id = static_cast<int>(factors_.size());
  for (const Factor::Side& side : factor.sides) factors_of_[side.unit].push_back(id);
  factors_.push_back(std::move(factor));
  Simplify(id);
}

void Factors::Replace(int unit, Factor message) {
  const std::vector<int> old = factors_of_[unit];
  for (int id : old) {
    for (const Factor::Side& side : factors_[id].sides) {
      Forget(side.unit, id);
    }
    factors_[id] = {};
  }
  domains_[unit].resize(1);
  seconds_[unit] = {0};
  for (const Factor::Side& side : message.sides) Enqueue(side.unit);
  Add(std::move(message));
}

// A unit with thousands of readers has thousands of factors.
void Factors::Forget(int unit, int factor) {
  std::vector<int>& list = factors_of_[unit];
  list.erase(std::lower_bound(list.begin(), list.end(), factor));
}

void Factors::Simplify(int id) {
  Factor& factor = factors_[id];
  if (factor.table == nullptr && factor.value < 0) return;  // gone
  for (size_t side = factor.sides.size(); side-- > 0;) {
    if (factor.sides[side].size == 1) RemoveSide(factor, side);
  }
  if (factor.table == nullptr && factor.Volume() > kMaxValueTable) return;
  if (factor.table == nullptr) MakeTable(factor);
  if (factor.sides.size() > 1) return;
  if (factor.sides.empty()) {
    constant_ += (*factor.table)[0];
  } else {
    const Factor::Side& side = factor.sides[0];
    for (size_t i = 0; i < side.class_of.size(); ++i) seconds_[side.unit][i] += (*factor.table)[side.class_of[i]];
    Enqueue(side.unit);
    RemoveSide(factor, 0);
  }
  factor = {};
}

void Factors::RemoveSide(Factor& factor, size_t side) {
  const int id = static_cast<int>(&factor - factors_.data());
  const auto at = static_cast<std::ptrdiff_t>(side);
  Forget(factor.sides[side].unit, id);
  factor.sides.erase(factor.sides.begin() + at);
  if (factor.table != nullptr) return;  // a table of one class along a side is the same without it
  factor.fixed.emplace_back(factor.ports[side], factor.states[side][0]);
  factor.ports.erase(factor.ports.begin() + at);
  factor.states.erase(factor.states.begin() + at);
}

std::vector<const CostGraph::State*> Factors::StatesLeft(const Factor& factor, int port) const {
  const std::vector<CostGraph::State>& states = graph_.port(port).states;
  for (size_t s = 0; s < factor.ports.size(); ++s) {
    if (factor.ports[s] != port) continue;
    std::vector<const CostGraph::State*> left;
    for (int state : factor.states[s]) left.push_back(&states[state]);
    return left;
  }
  for (const auto& [fixed, state] : factor.fixed) {
    if (fixed == port) return {&states[state]};
  }
  return {&states[0]};
}

std::vector<int> Factors::Describe(const Factor& factor) const {
  std::vector<int> key{graph_.value(factor.value).prices};
  for (int port : graph_.value(factor.value).ports) {
    const std::vector<const CostGraph::State*> left = StatesLeft(factor, port);
    key.push_back(static_cast<int>(left.size()));
    for (const CostGraph::State* state : left) {
      key.push_back(state->from);
      key.push_back(static_cast<int>(state->wants.size()));
      key.insert(key.end(), state->wants.begin(), state->wants.end());
    }
  }
  return key;
}

void Factors::MakeTable(Factor& factor) {
  const std::vector<int>& ports = graph_.value(factor.value).ports;
  std::vector<std::vector<const CostGraph::State*>> left;
  for (int port : ports) left.push_back(StatesLeft(factor, port));
  // The order of sides is that of the value's ports, so that equal keys mean equal tables.
  FactorTable& known = tables_[Describe(factor)];
  if (known == nullptr) {
    std::vector<size_t> port_of;  // by side
    for (int port : factor.ports) port_of.push_back(std::find(ports.begin(), ports.end(), port) - ports.begin());
    auto table = std::make_shared<std::vector<double>>();
    table->reserve(static_cast<size_t>(factor.Volume()));
    ChoicePrices prices(graph_, factor.value, left);
    std::vector<int> digits(factor.sides.size(), 0);
    do {
      for (size_t side = 0; side < digits.size(); ++side) prices.Choose(port_of[side], digits[side]);
      table->push_back(prices.Seconds());
    } while (Next(factor.sides, digits));
    known = std::move(table);
  }
  factor.table = known;
  factor.value = -1;
  factor.ports.clear();
  factor.states.clear();
  factor.fixed.clear();
}

// --- dominance
// --------------------------------------------------------------------------------------------------------

void Factors::Enqueue(int unit) {
  if (queued_[unit]) return;
  queued_[unit] = true;
  queue_.push_back(unit);
}

void Factors::Prune() {
  while (!queue_.empty()) {
    const int unit = queue_.front();
    queue_.pop_front();
    queued_[unit] = false;
    if (domains_[unit].size() > 1) Reduce(unit);
  }
}

bool Factors::Reduce(int unit) {
  const size_t n = domains_[unit].size();
  const std::vector<double>& seconds = seconds_[unit];
  struct Seen {
    const Factor::Side* side;
    Matrix differences;
  };
  std::vector<Seen> seen;
  for (int id : factors_of_[unit]) {
    const Factor& factor = factors_[id];
    for (size_t s = 0; s < factor.sides.size(); ++s) {
      if (factor.sides[s].unit == unit) seen.push_back({&factor.sides[s], Differences(factor, s)});
    }
  }
  const auto dominates = [&](size_t b, size_t a) {
    double least = seconds[a] - seconds[b];
    for (const Seen& it : seen) {
      const int class_a = it.side->class_of[a], class_b = it.side->class_of[b];
      if (class_a != class_b) least += (*it.differences)[class_a * it.side->size + class_b];
    }
    return least >= -kRoundingSeconds;
  };
  std::vector<bool> dropped(n, false);
  size_t left = n;
  for (size_t a = n; a-- > 0 && left > 1;) {
    bool drop = seconds[a] > upper_;
    for (size_t b = 0; b < n && !drop; ++b) drop = b != a && !dropped[b] && dominates(b, a);
    dropped[a] = drop;
    left -= drop ? 1 : 0;
  }
  if (left == n) return false;
  std::vector<int> positions;
  for (size_t i = 0; i < n; ++i) {
    if (!dropped[i]) positions.push_back(static_cast<int>(i));
  }
  Keep(unit, positions);
  return true;
}

void Factors::Keep(int unit, const std::vector<int>& positions) {
  const auto pick = [&](auto& list) {
    auto picked = list;
    picked.clear();
    for (int position : positions) picked.push_back(list[position]);
    list = std::move(picked);
  };
  pick(domains_[unit]);
  pick(seconds_[unit]);
  const std::vector<int> ids = factors_of_[unit];
  for (int id : ids) {
    Factor& factor = factors_[id];
    for (size_t s = 0; s < factor.sides.size(); ++s) {
      if (factor.sides[s].unit != unit) continue;
      pick(factor.sides[s].class_of);
      const int before = factor.sides[s].size;
      Compact(factor, s);
      if (factor.sides[s].size == before) continue;
      for (const Factor::Side& side : factor.sides) {
        if (side.unit != unit) Enqueue(side.unit);
      }
    }
    Simplify(id);
  }
}

// Removes the classes of a side that have no option any more.
void Factors::Compact(Factor& factor, size_t s) {
  Factor::Side& side = factor.sides[s];
  std::vector<int> alive(side.class_of);
  std::sort(alive.begin(), alive.end());
  alive.erase(std::unique(alive.begin(), alive.end()), alive.end());
  if (static_cast<int>(alive.size()) == side.size) return;
  if (factor.table == nullptr) {
    std::vector<int> states;
    for (int c : alive) states.push_back(factor.states[s][c]);
    factor.states[s] = std::move(states);
  } else {
    const int64_t stride = Stride(factor, s), block = stride * side.size;
    std::vector<int64_t> key{reinterpret_cast<int64_t>(factor.table.get()), static_cast<int64_t>(s)};
    key.insert(key.end(), alive.begin(), alive.end());
    differences_.try_emplace({factor.table.get(), s}, factor.table, nullptr);  // holds the table, and so its address
    FactorTable& known = slices_[key];
    if (known == nullptr) {
      auto slice = std::make_shared<std::vector<double>>();
      for (int64_t begin = 0; begin < static_cast<int64_t>(factor.table->size()); begin += block) {
        for (int c : alive) {
          const auto row = factor.table->begin() + begin + c * stride;
          slice->insert(slice->end(), row, row + stride);
        }
      }
      known = std::move(slice);
    }
    factor.table = known;
  }
  for (int& c : side.class_of) c = static_cast<int>(std::lower_bound(alive.begin(), alive.end(), c) - alive.begin());
  side.size = static_cast<int>(alive.size());
}

Factors::Matrix Factors::Differences(const Factor& factor, size_t side) {
  if (factor.table == nullptr) {
    std::vector<int> key = Describe(factor);
    key.push_back(static_cast<int>(side));
    Matrix& known = wide_differences_[key];
    if (known == nullptr) known = DifferencesOfWide(factor, side);
    return known;
  }
  auto& [table, known] = differences_[{factor.table.get(), side}];
  if (known == nullptr) {
    table = factor.table;
    known = DifferencesOfTable(factor, side);
  }
  return known;
}

Factors::Matrix Factors::DifferencesOfTable(const Factor& factor, size_t side) const {
  const int size = factor.sides[side].size;
  const int64_t total = static_cast<int64_t>(factor.table->size()), stride = Stride(factor, side);
  if (static_cast<double>(total) * size > kMaxComparisons) {
    return std::make_shared<std::vector<double>>(size * size, -kInfinity);
  }
  auto least = std::make_shared<std::vector<double>>(size * size, kInfinity);
  for (int64_t block = 0; block < total; block += stride * size) {
    for (int64_t rest = block; rest < block + stride; ++rest) {
      const double* const entries = factor.table->data() + rest;
      for (int a = 0; a < size; ++a) {
        const double of_a = entries[a * stride];
        if (of_a > upper_) continue;
        double* const row = least->data() + a * size;
        for (int b = 0; b < size; ++b) row[b] = std::min(row[b], of_a - entries[b * stride]);
      }
    }
  }
  return least;
}

// A bound without trying all combinations. For the producer: the wants are a set to which every reader adds, so every
// gain may occur, and at least the least of some reader's losses. For a reader: the type that it alone wants is paid,
// unless another may want it too; the alternative's type may be paid or not.
Factors::Matrix Factors::DifferencesOfWide(const Factor& factor, size_t side) const {
  const int value = factor.value, size = factor.sides[side].size;
  const CostGraph::Port& own = graph_.port(factor.ports[side]);
  std::vector<std::vector<int>> wants;  // of every other port: what it may want
  std::vector<int> froms;
  for (int port : graph_.value(value).ports) {
    if (port == factor.ports[side]) continue;
    wants.emplace_back();
    for (const CostGraph::State* state : StatesLeft(factor, port)) {
      wants.back().insert(wants.back().end(), state->wants.begin(), state->wants.end());
      if (state->from != CostGraph::kNone) froms.push_back(state->from);
    }
  }
  std::vector<int> any;
  for (const std::vector<int>& list : wants) any.insert(any.end(), list.begin(), list.end());
  std::sort(any.begin(), any.end());
  any.erase(std::unique(any.begin(), any.end()), any.end());
  if (static_cast<double>(size) * size * static_cast<double>(any.size() + froms.size()) > kMaxComparisons / 16) {
    return std::make_shared<std::vector<double>>(size * size, -kInfinity);
  }
  const auto price = [&](int from, int to) { return from == to ? 0 : graph_.Price(value, from, to); };

  const auto of_producer = [&](const CostGraph::State& a, const CostGraph::State& b) {
    if (!a.wants.empty() || !b.wants.empty()) return -kInfinity;
    double gains = 0, loss = 0;
    for (int to : any) gains += std::min(0.0, price(a.from, to) - price(b.from, to));
    for (const std::vector<int>& list : wants) {
      double least = list.empty() ? 0 : kInfinity;
      for (int to : list) least = std::min(least, std::max(0.0, price(a.from, to) - price(b.from, to)));
      loss = std::max(loss, least);
    }
    return gains + loss;
  };
  const auto of_reader = [&](const CostGraph::State& a, const CostGraph::State& b) {
    double least = kInfinity;
    for (int from : froms) {
      double difference = 0;
      for (int to : a.wants) {
        const bool shared = std::find(b.wants.begin(), b.wants.end(), to) != b.wants.end();
        if (!shared && !std::binary_search(any.begin(), any.end(), to)) difference += price(from, to);
      }
      for (int to : b.wants) {
        const bool shared = std::find(a.wants.begin(), a.wants.end(), to) != a.wants.end();
        if (!shared) difference -= price(from, to);
      }
      least = std::min(least, difference);
    }
    return least;
  };
  auto least = std::make_shared<std::vector<double>>(size * size, 0);
  for (int a = 0; a < size; ++a) {
    for (int b = 0; b < size; ++b) {
      const CostGraph::State& state_a = own.states[factor.states[side][a]];
      const CostGraph::State& state_b = own.states[factor.states[side][b]];
      const bool makes = state_a.from != CostGraph::kNone;
      if (a != b) (*least)[a * size + b] = makes ? of_producer(state_a, state_b) : of_reader(state_a, state_b);
    }
  }
  return least;
}

}  // namespace oneflow
