#include "compiler/select/dual_ascent.h"

#include <algorithm>

namespace oneflow {
namespace {

// Entries above `cap` become `cap`.
FactorTable Capped(const FactorTable& table, double cap) {
  if (std::all_of(table->begin(), table->end(), [cap](double entry) { return entry <= cap; })) return table;
  auto capped = std::make_shared<std::vector<double>>(*table);
  for (double& entry : *capped) entry = std::min(entry, cap);
  return capped;
}

// The least of `size` entries minus `message`; in four independent lanes.
double LeastOfRow(const double* entries, const double* message, size_t size) {
  double least[4] = {kInfinity, kInfinity, kInfinity, kInfinity};
  size_t c = 0;
  for (; c + 4 <= size; c += 4) {
    for (size_t lane = 0; lane < 4; ++lane) {
      const double entry = entries[c + lane] - message[c + lane];
      least[lane] = entry < least[lane] ? entry : least[lane];
    }
  }
  for (; c < size; ++c) least[0] = std::min(least[0], entries[c] - message[c]);
  return std::min(std::min(least[0], least[1]), std::min(least[2], least[3]));
}

// Row-major entries, minimised over the last dimension, of `size`, after subtracting `message`; `fixed`: the only class
// that counts, unless negative.
std::vector<double> WithoutLast(const double* entries, size_t count, size_t size, const std::vector<double>& message,
                                int fixed) {
  std::vector<double> result(count / size);
  for (double& least : result) {
    least = fixed >= 0 ? entries[fixed] - message[fixed] : LeastOfRow(entries, message.data(), size);
    entries += size;
  }
  return result;
}

// least[i] = min(least[i], entries[i] - message), four at a time.
void LowerTo(const double* __restrict entries, double message, size_t size, double* __restrict least) {
  size_t i = 0;
  for (; i + 4 <= size; i += 4) {
    for (size_t lane = 0; lane < 4; ++lane) {
      const double entry = entries[i + lane] - message;
      least[i + lane] = entry < least[i + lane] ? entry : least[i + lane];
    }
  }
  for (; i < size; ++i) least[i] = std::min(least[i], entries[i] - message);
}

// The same along the first dimension.
std::vector<double> WithoutFirst(const double* entries, size_t count, size_t size, const std::vector<double>& message,
                                 int fixed) {
  const size_t rest = count / size;
  std::vector<double> result(rest, kInfinity);
  for (size_t c = 0; c < size; ++c) {
    if (fixed >= 0 && fixed != static_cast<int>(c)) continue;
    const double* const row = entries + c * rest;
    LowerTo(row, message[c], rest, result.data());
  }
  return result;
}

}  // namespace

DualAscent::DualAscent(const Factors& factors, std::vector<int> core, double cap, const Messages& messages)
    : factors_(factors),
      core_(std::move(core)),
      cap_(cap),
      parts_of_(factors.num_units()),
      least_(factors.num_units()) {
  std::map<const void*, FactorTable> capped;
  for (int id = 0; id < factors.num_factors(); ++id) {
    const FactorTable& table = factors.factor(id).table;
    if (factors.factor(id).gone()) continue;
    FactorTable& known = capped[table.get()];
    if (table != nullptr && known == nullptr) known = Capped(table, cap);
    AddPart(id, known, messages);
  }
  for (int unit : core_) least_[unit].assign(factors.domain(unit).size(), 0);
}

void DualAscent::AddPart(int id, const FactorTable& table, const Messages& messages) {
  const Factor& factor = factors_.factor(id);
  Part part{id, table, std::nullopt, {}};
  if (table == nullptr) part.value.emplace(factors_, factor, cap_);
  const auto by_unit = [](const Factor::Side& a, const Factor::Side& b) { return a.unit < b.unit; };
  const auto [first, last] = std::minmax_element(factor.sides.begin(), factor.sides.end(), by_unit);
  for (const Factor::Side& side : factor.sides) {
    parts_of_[side.unit].emplace_back(static_cast<int>(parts_.size()), part.sides.size());
    std::vector<double> message(side.size, 0);
    if (const auto known = messages.find({id, side.unit}); known != messages.end()) {
      const std::vector<int>& options = factors_.domain(side.unit);
      for (size_t i = 0; i < options.size(); ++i) message[side.class_of[i]] = known->second[options[i]];
    }
    part.sides.push_back(
        {side.unit, &side.class_of, std::move(message), side.unit == first->unit, side.unit == last->unit});
  }
  parts_.push_back(std::move(part));
}

Messages DualAscent::messages() const {
  Messages messages;
  for (const Part& part : parts_) {
    for (const Side& side : part.sides) {
      const std::vector<int>& options = factors_.domain(side.unit);
      std::vector<double>& of_option = messages[{part.id, side.unit}];
      of_option.assign(options.back() + 1, 0);
      for (size_t i = 0; i < options.size(); ++i) of_option[options[i]] = side.message[(*side.class_of)[i]];
    }
  }
  return messages;
}

double DualAscent::work() const {
  double work = 0;
  for (const Part& part : parts_) {
    const double once = part.value.has_value() ? part.value->work() : static_cast<double>(part.table->size());
    work += 2 * once * static_cast<double>(part.sides.size());
  }
  return work;
}

std::vector<double> DualAscent::LeastOf(const Part& part, size_t side, const std::vector<int>& fixed) const {
  if (part.value.has_value()) {
    std::vector<const std::vector<double>*> messages;
    for (const Side& it : part.sides) messages.push_back(&it.message);
    return part.value->Least(messages, side, fixed);
  }
  std::vector<double> left;
  const double* entries = part.table->data();
  size_t count = part.table->size();
  for (size_t s = part.sides.size(); --s > side;) {
    left = WithoutLast(entries, count, part.sides[s].message.size(), part.sides[s].message, fixed[s]);
    entries = left.data(), count = left.size();
  }
  for (size_t s = 0; s < side; ++s) {
    left = WithoutFirst(entries, count, part.sides[s].message.size(), part.sides[s].message, fixed[s]);
    entries = left.data(), count = left.size();
  }
  return left;
}

std::vector<double> DualAscent::Worth(int unit) const {
  std::vector<double> worth = factors_.seconds(unit);
  for (double& seconds : worth) seconds = std::min(seconds, cap_);
  for (const auto& [number, s] : parts_of_[unit]) {
    const Side& side = parts_[number].sides[s];
    for (size_t i = 0; i < worth.size(); ++i) worth[i] += side.message[(*side.class_of)[i]];
  }
  return worth;
}

void DualAscent::Visit(int unit, bool forwards) {
  double before = 0, behind = 0;  // factors that have a unit on that side
  for (const auto& [number, s] : parts_of_[unit]) {
    Part& part = parts_[number];
    part.sides[s].message = LeastOf(part, s, std::vector<int>(part.sides.size(), -1));
    before += (forwards ? part.sides[s].first : part.sides[s].last) ? 0 : 1;
    behind += (forwards ? part.sides[s].last : part.sides[s].first) ? 0 : 1;
  }
  const std::vector<double> worth = Worth(unit);
  const double least = *std::min_element(worth.begin(), worth.end());
  for (size_t i = 0; i < worth.size(); ++i) least_[unit][i] = std::max(least_[unit][i], bound_ + worth[i] - least);
  const double share = 1 / std::max({before, behind, 1.0});
  for (const auto& [number, s] : parts_of_[unit]) {
    Side& side = parts_[number].sides[s];
    if (forwards ? side.last : side.first) continue;
    std::vector<double> given(side.message.size(), kInfinity);
    for (size_t i = 0; i < worth.size(); ++i) {
      double& of_class = given[(*side.class_of)[i]];
      of_class = std::min(of_class, worth[i]);
    }
    for (size_t c = 0; c < given.size(); ++c) side.message[c] -= share * given[c];
  }
}

// After a sweep no factor keeps anything: the units have it all.
double DualAscent::SumOfLeast() const {
  double sum = factors_.constant();
  for (int unit : core_) {
    const std::vector<double> worth = Worth(unit);
    sum += *std::min_element(worth.begin(), worth.end());
  }
  return sum;
}

void DualAscent::Sweep() {
  for (int unit : core_) Visit(unit, true);
  bound_ = std::max(bound_, SumOfLeast());
  for (auto unit = core_.rbegin(); unit != core_.rend(); ++unit) Visit(*unit, false);
  bound_ = std::max(bound_, SumOfLeast());
}

std::vector<int> DualAscent::Round() const {
  std::vector<std::vector<int>> fixed;  // by part: the classes that are chosen
  for (const Part& part : parts_) fixed.emplace_back(part.sides.size(), -1);
  std::vector<int> options(factors_.num_units(), 0);
  for (int unit : core_) {
    std::vector<double> worth = Worth(unit);
    for (const auto& [number, s] : parts_of_[unit]) {
      const Side& side = parts_[number].sides[s];
      const std::vector<double> least = LeastOf(parts_[number], s, fixed[number]);
      for (size_t i = 0; i < worth.size(); ++i) {
        const int c = (*side.class_of)[i];
        worth[i] += least[c] - side.message[c];
      }
    }
    const size_t best = std::min_element(worth.begin(), worth.end()) - worth.begin();
    options[unit] = factors_.domain(unit)[best];
    for (const auto& [number, s] : parts_of_[unit]) fixed[number][s] = (*parts_[number].sides[s].class_of)[best];
  }
  return options;
}

}  // namespace oneflow
