#include "compiler/select/elimination.h"

#include <algorithm>
#include <bit>
#include <map>

namespace oneflow {
namespace {

constexpr double kEliminated = -1;

// The index of `unit` in `sides`.
size_t SideOf(const std::vector<Factor::Side>& sides, int unit) {
  size_t side = 0;
  while (sides[side].unit != unit) ++side;
  return side;
}

}  // namespace

Elimination::Elimination(Factors& factors, const SearchLimits& limits)
    : factors_(factors),
      limits_(limits),
      budget_(static_cast<double>(limits.total_entries + limits.unit_entries * factors.num_units())),
      estimates_(factors.num_units(), kInfinity),
      seen_(factors.num_units()) {
  for (int unit = 0; unit < factors.num_units(); ++unit) {
    queue_.emplace(kInfinity, unit);
    Refresh(unit);
  }
}

bool Elimination::Run() {
  while (!queue_.empty()) {
    const auto [estimate, unit] = *queue_.begin();
    if (estimate <= static_cast<double>(limits_.table_entries) && spent_ + estimate <= budget_) {
      Eliminate(unit);
      continue;
    }
    size_t before = 0, after = 0;
    for (const auto& entry : queue_) before += factors_.domain(entry.second).size();
    factors_.Prune();
    for (int other : core()) {
      after += factors_.domain(other).size();
      Refresh(other);
    }
    if (after == before) return false;
  }
  return true;
}

bool Elimination::Resume() {
  factors_.Prune();
  for (int unit : core()) Refresh(unit);
  return Run();
}

std::vector<int> Elimination::core() const {
  std::vector<int> units;
  for (const auto& entry : queue_) units.push_back(entry.second);
  std::sort(units.begin(), units.end());
  return units;
}

// An upper bound on the entries examined to eliminate the unit; infinity if it exceeds the limit. More factors never
// mean fewer entries, so for a unit with thousands of readers the first few are enough.
double Elimination::Estimate(int unit) {
  double entries = static_cast<double>(factors_.domain(unit).size());
  ++now_;
  for (int id : factors_.factors_of(unit)) {
    const Factor& factor = factors_.factor(id);
    ++looks_;
    if (factor.table == nullptr) return kInfinity;
    for (const Factor::Side& side : factor.sides) {
      if (side.unit == unit) continue;
      Seen& seen = seen_[side.unit];
      if (seen.at != now_) seen = {now_, 1};
      const double count = std::min(seen.classes * side.size, static_cast<double>(factors_.domain(side.unit).size()));
      entries = entries / seen.classes * count;  // both exact: all are whole numbers, and small
      seen.classes = count;
    }
    if (entries > static_cast<double>(limits_.table_entries)) return kInfinity;
  }
  return entries;
}

void Elimination::Refresh(int unit) {
  queue_.erase({estimates_[unit], unit});
  estimates_[unit] = Estimate(unit);
  queue_.emplace(estimates_[unit], unit);
}

// The other units of the unit's factors, with their options in classes that some of these factors distinguishes.
std::vector<Factor::Side> Elimination::Neighbours(int unit) const {
  std::map<int, std::vector<const Factor::Side*>> seen;
  for (int id : factors_.factors_of(unit)) {
    for (const Factor::Side& side : factors_.factor(id).sides) {
      if (side.unit != unit) seen[side.unit].push_back(&side);
    }
  }
  std::vector<Factor::Side> neighbours;
  for (const auto& [neighbour, sides] : seen) {
    Factor::Side merged{neighbour, {}, 0};
    std::map<std::vector<int>, int> number_of;
    for (size_t position = 0; position < factors_.domain(neighbour).size(); ++position) {
      std::vector<int> classes;
      for (const Factor::Side* side : sides) classes.push_back(side->class_of[position]);
      merged.class_of.push_back(number_of.try_emplace(classes, static_cast<int>(number_of.size())).first->second);
    }
    merged.size = static_cast<int>(number_of.size());
    neighbours.push_back(std::move(merged));
  }
  return neighbours;
}

// Everything that determines the step, except the identity of units.
std::vector<int64_t> Elimination::Describe(int unit, const std::vector<Factor::Side>& neighbours) const {
  const std::vector<int>& domain = factors_.domain(unit);
  std::vector<int64_t> key(domain.begin(), domain.end());
  for (const double seconds : factors_.seconds(unit)) key.push_back(std::bit_cast<int64_t>(seconds));
  for (int id : factors_.factors_of(unit)) {
    const Factor& factor = factors_.factor(id);
    key.push_back(reinterpret_cast<int64_t>(factor.table.get()));
    for (const Factor::Side& side : factor.sides) {
      const auto same = [&](const Factor::Side& other) { return other.unit == side.unit; };
      key.push_back(std::find_if(neighbours.begin(), neighbours.end(), same) - neighbours.begin());
      key.push_back(side.size);
      key.insert(key.end(), side.class_of.begin(), side.class_of.end());
    }
  }
  return key;
}

Elimination::Outcome Elimination::Minimise(int unit, const std::vector<Factor::Side>& neighbours) const {
  const std::vector<int>& ids = factors_.factors_of(unit);
  const std::vector<int>& domain = factors_.domain(unit);
  const size_t num_axes = neighbours.size(), num_factors = ids.size();

  // The offset of a class of a neighbour, or of an option of the unit, in each factor's table.
  std::vector<std::vector<std::vector<int64_t>>> offset(num_axes);  // by neighbour, class, factor
  std::vector<std::vector<int64_t>> own(domain.size(), std::vector<int64_t>(num_factors, 0));
  for (size_t axis = 0; axis < num_axes; ++axis) {
    offset[axis].assign(neighbours[axis].size, std::vector<int64_t>(num_factors, 0));
  }
  Outcome outcome;
  for (size_t f = 0; f < num_factors; ++f) {
    const Factor& factor = factors_.factor(ids[f]);
    outcome.read.push_back(factor.table);
    int64_t stride = 1;
    for (size_t s = factor.sides.size(); s-- > 0; stride *= factor.sides[s].size) {
      const Factor::Side& side = factor.sides[s];
      if (side.unit == unit) {
        for (size_t i = 0; i < domain.size(); ++i) own[i][f] = stride * side.class_of[i];
        continue;
      }
      const size_t axis = SideOf(neighbours, side.unit);
      for (size_t i = 0; i < side.class_of.size(); ++i) {
        offset[axis][neighbours[axis].class_of[i]][f] = stride * side.class_of[i];
      }
    }
  }

  auto table = std::make_shared<std::vector<double>>();
  auto choice = std::make_shared<std::vector<int>>();
  std::vector<int> digits(num_axes, 0);
  std::vector<const double*> base(num_factors);
  while (true) {
    for (size_t f = 0; f < num_factors; ++f) base[f] = outcome.read[f]->data();
    for (size_t axis = 0; axis < num_axes; ++axis) {
      const std::vector<int64_t>& at = offset[axis][digits[axis]];
      for (size_t f = 0; f < num_factors; ++f) base[f] += at[f];
    }
    double least = kInfinity;
    int best = 0;
    for (size_t i = 0; i < domain.size(); ++i) {
      double seconds = factors_.seconds(unit)[i];
      for (size_t f = 0; f < num_factors; ++f) seconds += base[f][own[i][f]];
      if (seconds < least) least = seconds, best = domain[i];
    }
    table->push_back(least);
    choice->push_back(best);
    size_t axis = num_axes;
    while (axis > 0 && ++digits[axis - 1] == neighbours[axis - 1].size) digits[--axis] = 0;
    if (axis == 0) break;
  }
  outcome.table = std::move(table);
  outcome.best = std::move(choice);
  return outcome;
}

void Elimination::Eliminate(int unit) {
  Factor message;
  message.sides = Neighbours(unit);
  const auto [it, is_new] = outcomes_.try_emplace(Describe(unit, message.sides));
  if (is_new) {
    it->second = Minimise(unit, message.sides);
    spent_ += static_cast<double>(it->second.table->size() * factors_.domain(unit).size());
  }
  Step step{unit, {}, it->second.best};
  for (const Factor::Side& side : message.sides) {
    const std::vector<int>& options = factors_.domain(side.unit);
    Step::Axis axis{side.unit, std::vector<int>(options.back() + 1, -1), side.size};
    for (size_t i = 0; i < options.size(); ++i) axis.class_of_option[options[i]] = side.class_of[i];
    step.axes.push_back(std::move(axis));
  }
  message.table = it->second.table;
  queue_.erase({estimates_[unit], unit});
  estimates_[unit] = kEliminated;
  steps_.push_back(std::move(step));
  factors_.Replace(unit, std::move(message));
  for (const Step::Axis& axis : steps_.back().axes) Refresh(axis.unit);
}

void Elimination::Complete(std::vector<int>& options) const {
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    size_t index = 0;
    for (const Step::Axis& axis : step->axes) index = index * axis.size + axis.class_of_option[options[axis.unit]];
    options[step->unit] = (*step->best)[index];
  }
}

}  // namespace oneflow
