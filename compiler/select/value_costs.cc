#include "compiler/select/value_costs.h"

#include <algorithm>
#include <cstdint>

namespace oneflow {
namespace {

constexpr int kNothing = -1;  // what a reader may want

}  // namespace

ValueCosts::ValueCosts(const Factors& factors, const Factor& factor, double cap) {
  std::vector<const CostGraph::State*> makers;
  std::vector<int> always;  // wanted by every choice
  std::vector<Reader> readers;
  for (const int port : factors.graph().value(factor.value).ports) {  // the maker's first
    const auto side = std::find(factor.ports.begin(), factor.ports.end(), port) - factor.ports.begin();
    const bool is_side = side < static_cast<std::ptrdiff_t>(factor.ports.size());
    const std::vector<const CostGraph::State*> left = factors.StatesLeft(factor, port);
    if (makers.empty()) {
      makers = left;
      if (is_side) maker_side_ = static_cast<int>(side);
    } else if (is_side) {
      readers.push_back({static_cast<int>(side), {}});
      for (const CostGraph::State* state : left) {
        readers.back().want.push_back(state->wants.empty() ? kNothing : state->wants[0]);
        num_types_ = std::max(num_types_, readers.back().want.back() + 1);
      }
    } else {
      always.insert(always.end(), left[0]->wants.begin(), left[0]->wants.end());
    }
  }
  AddGroups(std::move(readers));
  for (const CostGraph::State* state : makers) {
    std::vector<int> paid = always;
    paid.insert(paid.end(), state->wants.begin(), state->wants.end());
    SortUnique(paid);
    AddMaker(paid, [&](int to) {
      return to == state->from ? 0 : std::min(cap, factors.graph().Price(factor.value, state->from, to));
    });
  }
}

// Readers that want no type have a last type, which costs nothing.
void ValueCosts::AddGroups(std::vector<Reader> readers) {
  groups_.resize(std::max<size_t>(1, (readers.size() + kMaxReaders - 1) / kMaxReaders));
  for (size_t i = 0; i < readers.size(); ++i) {
    for (int& want : readers[i].want) want = want == kNothing ? num_types_ : want;
    groups_[i % groups_.size()].push_back(std::move(readers[i]));
  }
  ++num_types_;
}

// A maker that has the types in `paid` (ascending) for any readers.
template <typename Price>
void ValueCosts::AddMaker(const std::vector<int>& paid, const Price& price) {
  Maker maker;
  for (const int to : paid) maker.base += price(to);
  for (int to = 0; to + 1 < num_types_; ++to) {
    const bool free = std::binary_search(paid.begin(), paid.end(), to);
    maker.open.push_back(free ? 0 : price(to) / static_cast<double>(groups_.size()));
  }
  maker.open.push_back(0);
  makers_.push_back(std::move(maker));
}

double ValueCosts::work() const {
  double work = 0;
  for (const Group& group : groups_) {
    const double sets = static_cast<double>(int64_t{1} << group.size());
    work += sets * num_types_ * static_cast<double>(makers_.size()) * 2;
  }
  return work;
}

ValueCosts::Offers ValueCosts::OffersOf(const Group& group, const std::vector<const std::vector<double>*>& messages,
                                        const std::vector<int>& fixed) const {
  const size_t sets = size_t{1} << group.size();
  Offers offers{std::vector<double>(sets * num_types_, 0), std::vector<double>(sets), std::vector<double>(sets)};
  for (size_t member = 0; member < group.size(); ++member) {
    const Reader& reader = group[member];
    double* const own = offers.alone.data() + (size_t{1} << member) * num_types_;
    std::fill(own, own + num_types_, kInfinity);
    for (size_t c = 0; c < reader.want.size(); ++c) {
      if (fixed[reader.side] >= 0 && fixed[reader.side] != static_cast<int>(c)) continue;
      double& least = own[reader.want[c]];
      least = std::min(least, -(*messages[reader.side])[c]);
    }
  }
  for (size_t set = 1; set < sets; ++set) {
    const size_t rest = set & (set - 1);
    if (rest == 0) continue;
    const double* const a = offers.alone.data() + rest * num_types_;
    const double* const b = offers.alone.data() + (set ^ rest) * num_types_;
    double* const sum = offers.alone.data() + set * num_types_;
    for (int type = 0; type < num_types_; ++type) sum[type] = a[type] + b[type];
  }
  return offers;
}

// Fills in the least cost of each set for this maker.
void ValueCosts::Partition(const Maker& maker, Offers& offers) const {
  for (size_t set = 1; set < offers.least.size(); ++set) {
    const double* const alone = offers.alone.data() + set * num_types_;
    double least = kInfinity;
    for (int type = 0; type < num_types_; ++type) least = std::min(least, alone[type] + maker.open[type]);
    offers.least[set] = least;
  }
  offers.best[0] = 0;
  for (size_t set = 1; set < offers.best.size(); ++set) {
    const size_t lowest = set & (~set + 1), others = set ^ lowest;
    double best = kInfinity;
    for (size_t with = others;; with = (with - 1) & others) {  // all subsets
      best = std::min(best, offers.least[with | lowest] + offers.best[others ^ with]);
      if (with == 0) break;
    }
    offers.best[set] = best;
  }
}

// The least of all readers of the group but `member`, plus the price of the type that it wants.
double ValueCosts::LeastBeside(const Maker& maker, const Offers& offers, size_t member, int want,
                               size_t num_members) const {
  const size_t others = ((size_t{1} << num_members) - 1) ^ (size_t{1} << member);
  double least = kInfinity;
  for (size_t with = others;; with = (with - 1) & others) {  // who wants the same
    least = std::min(least, offers.alone[with * num_types_ + want] + offers.best[others ^ with]);
    if (with == 0) break;
  }
  return least + maker.open[want];
}

std::vector<double> ValueCosts::Least(const std::vector<const std::vector<double>*>& messages, size_t side,
                                      const std::vector<int>& fixed) const {
  std::vector<Offers> offers;
  for (const Group& group : groups_) offers.push_back(OffersOf(group, messages, fixed));
  const bool of_maker = static_cast<int>(side) == maker_side_;
  std::vector<double> result(messages[side]->size(), kInfinity);
  for (size_t m = 0; m < makers_.size(); ++m) {
    const Maker& maker = makers_[m];
    if (maker_side_ >= 0 && fixed[maker_side_] >= 0 && fixed[maker_side_] != static_cast<int>(m)) continue;
    double rest = maker.base - (maker_side_ >= 0 && !of_maker ? (*messages[maker_side_])[m] : 0);
    for (Offers& offer : offers) {
      Partition(maker, offer);
      rest += offer.best.back();
    }
    if (of_maker) {
      result[m] = rest;
      continue;
    }
    for (size_t g = 0; g < groups_.size(); ++g) {
      for (size_t member = 0; member < groups_[g].size(); ++member) {
        const Reader& reader = groups_[g][member];
        if (reader.side != static_cast<int>(side)) continue;
        std::vector<double> beside(num_types_, kInfinity);
        for (size_t c = 0; c < reader.want.size(); ++c) {
          double& known = beside[reader.want[c]];
          if (known == kInfinity) known = LeastBeside(maker, offers[g], member, reader.want[c], groups_[g].size());
          result[c] = std::min(result[c], rest - offers[g].best.back() + known);
        }
      }
    }
  }
  return result;
}

}  // namespace oneflow
