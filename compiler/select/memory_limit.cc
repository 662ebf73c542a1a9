#include "compiler/select/memory_limit.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace oneflow {
namespace {

// Total seconds for the bytes of the cheapest choice at the lowest and the highest price. The highest outweighs every
// possible boxing, but no impossible one.
constexpr double kLowest = 1e-6, kHighest = 1e5;
// Where memory is short, weights may be gathered to make room. A boxing of one then has a price: so many times its
// time, at least that of a microsecond.
constexpr double kBoxedWeight = 1000, kLeastSeconds = 1e-6;
constexpr double kImpossibleSeconds = 1e6;
constexpr int kBisections = 14;       // to the 1e-3 part of the price
constexpr double kGoodEnough = 0.99;  // of a limit is used: a lower price gains little
constexpr int kPartOfAscent = 8;      // of the search at one price, for a bound that nobody reads

// The type of each reader's input, and of the value itself, in the choice.
int Want(const SearchProblem& problem, const std::vector<int>& choice, const std::pair<int, int>& reader) {
  return problem.nodes[reader.first].options[choice[reader.first]].inputs[reader.second];
}

int MadeAs(const SearchProblem& problem, const std::vector<int>& choice, int value) {
  const SearchProblem::Value& it = problem.values[value];
  return problem.nodes[it.producer].options[choice[it.producer]].outputs[it.output];
}

// Calls add(place, kind, bytes) for everything that a choice holds.
template <typename Add>
void ForAllHeld(const SearchProblem& problem, const MemoryDemand& demand, const std::vector<int>& choice,
                const Add& add) {
  for (const MemoryDemand::Made& made : demand.made) {
    add(demand.place[made.node], made.kind, made.bytes[choice[made.node]]);
  }
  std::vector<std::pair<int, int>> seen;  // place and type
  for (const MemoryDemand::Read& read : demand.read) {
    seen.clear();
    for (const std::pair<int, int>& reader : read.readers) {
      const int to = Want(problem, choice, reader);
      if (read.only_boxed && to == MadeAs(problem, choice, read.value)) continue;
      const std::pair<int, int> there = {demand.place[reader.first], to};
      if (std::find(seen.begin(), seen.end(), there) != seen.end()) continue;
      seen.push_back(there);
      add(there.first, read.kind, demand.size(read.value, to));
    }
  }
}

// The same problem with time as its only cost.
SearchProblem WithPricedWeights(SearchProblem problem) {
  problem.boxing = [boxing = std::move(problem.boxing)](int value, int from, int to) -> Cost {
    const Cost cost = boxing(value, from, to);
    if (!cost.possible()) return {0, kImpossibleSeconds};
    if (cost.avoided == 0) return cost;
    return {0, kBoxedWeight * std::max(cost.seconds, cost.avoided * kLeastSeconds)};
  };
  return problem;
}

// Adds the price of the bytes that a limit counts.
void AddPrice(SearchProblem& problem, const MemoryDemand& demand, double seconds_per_byte) {
  for (const MemoryDemand::Made& made : demand.made) {
    std::vector<SearchProblem::Option>& options = problem.nodes[made.node].options;
    for (size_t i = 0; i < options.size(); ++i) {
      options[i].seconds += seconds_per_byte * static_cast<double>(made.bytes[i]);
    }
  }
  std::vector<bool> boxings_hold(problem.values.size(), false);
  for (const MemoryDemand::Read& read : demand.read) {
    if (read.only_boxed) {
      boxings_hold[read.value] = true;
      continue;
    }
    const double share = seconds_per_byte / static_cast<double>(read.readers.size());
    for (const auto& [node, input] : read.readers) {
      for (SearchProblem::Option& option : problem.nodes[node].options) {
        option.seconds += share * static_cast<double>(demand.size(read.value, option.inputs[input]));
      }
    }
  }
  problem.boxing = [boxing = std::move(problem.boxing), holds = std::move(boxings_hold), size = demand.size,
                    seconds_per_byte](int value, int from, int to) {
    const double bytes = from == to || !holds[value] ? 0 : static_cast<double>(size(value, to));
    return boxing(value, from, to) + Cost{0, seconds_per_byte * bytes};
  };
}

class LimitedSearch {
 public:
  LimitedSearch(const SearchProblem& problem, const std::vector<MemoryLimit>& limits, const SearchLimits& search)
      : problem_(problem), weighed_(WithPricedWeights(problem)), limits_(limits), search_(search) {}

  absl::StatusOr<SearchResult> Run() {
    const SearchResult free = Search(problem_, search_);
    if (Exceeded(free) == nullptr) return free;
    for (const MemoryLimit& limit : limits_) {
      wanted_.push_back(static_cast<double>(LargestUse(problem_, limit.demand, free.choice).total()));
    }
    double low = std::log10(kLowest), high = std::log10(kHighest);
    SearchResult best = At(high);
    if (const MemoryLimit* const limit = Exceeded(best)) return TooMuch(*limit, best);
    for (int i = 0; i < kBisections && PartUsed(best) < kGoodEnough; ++i) {
      const double middle = (low + high) / 2;
      SearchResult result = At(middle);
      const bool fits = Exceeded(result) == nullptr;
      (fits ? high : low) = middle;
      if (fits) best = std::move(result);
    }
    best.exact = false;
    best.lower_bound = free.lower_bound;
    return best;
  }

 private:
  const MemoryLimit* Exceeded(const SearchResult& result) const {
    for (const MemoryLimit& limit : limits_) {
      if (LargestUse(problem_, limit.demand, result.choice).total() > limit.bytes) return &limit;
    }
    return nullptr;
  }

  // Of the limit with the greatest use.
  double PartUsed(const SearchResult& result) const {
    double part = 0;
    for (const MemoryLimit& limit : limits_) {
      const DemandByKind use = LargestUse(problem_, limit.demand, result.choice);
      part = std::max(part, static_cast<double>(use.total()) / static_cast<double>(limit.bytes));
    }
    return part;
  }

  // The choice for a price; its cost without it.
  SearchResult At(double log_price) const {
    SearchProblem priced = weighed_;
    for (size_t i = 0; i < limits_.size(); ++i) {
      AddPrice(priced, limits_[i].demand, std::pow(10, log_price) / std::max(wanted_[i], 1.0));
    }
    SearchLimits less = search_;
    less.ascent_steps /= kPartOfAscent;
    SearchResult result = Search(priced, less);
    result.cost = CostOf(problem_, result.choice);
    return result;
  }

  absl::Status TooMuch(const MemoryLimit& limit, const SearchResult& result) const {
    const DemandByKind use = LargestUse(problem_, limit.demand, result.choice);
    const bool one_kind = limit.demand.read.empty();
    return absl::ResourceExhaustedError(
        absl::StrCat(one_kind ? "variables need " : "memory: ", use.total(), " bytes ",
                     one_kind ? "on one rank however they are split"
                              : absl::StrCat("are needed on one rank however tensors lie (", use.ToString(), ")"),
                     ", but the limit is ", limit.bytes));
  }

  const SearchProblem& problem_;
  const SearchProblem weighed_;  // with prices of boxed weights, to which those of bytes are added
  const std::vector<MemoryLimit>& limits_;
  const SearchLimits& search_;
  std::vector<double> wanted_;  // by limit: bytes of the cheapest choice
};

}  // namespace

const char* Name(MemoryKind kind) {
  static constexpr const char* kNames[] = {"variables", "sums", "activations", "copies"};
  return kNames[static_cast<size_t>(kind)];
}

std::string DemandByKind::ToString() const {
  std::vector<std::string> parts;
  for (size_t kind = 0; kind < bytes.size(); ++kind) {
    if (bytes[kind] > 0) parts.push_back(absl::StrCat(Name(static_cast<MemoryKind>(kind)), " ", bytes[kind]));
  }
  return absl::StrJoin(parts, ", ");
}

// Places are few, so ranks are visited once per place and not per node.
DemandByKind LargestUse(const SearchProblem& problem, const MemoryDemand& demand, const std::vector<int>& choice) {
  std::vector<DemandByKind> at_place(demand.ranks.size());
  ForAllHeld(problem, demand, choice, [&](int place, MemoryKind kind, int64_t bytes) {
    at_place[place].bytes[static_cast<size_t>(kind)] += bytes;
  });
  std::unordered_map<int, DemandByKind> on_rank;
  DemandByKind largest;
  for (size_t place = 0; place < at_place.size(); ++place) {
    if (at_place[place].total() == 0) continue;
    for (int rank : demand.ranks[place]) {
      DemandByKind& use = on_rank[rank];
      for (size_t kind = 0; kind < use.bytes.size(); ++kind) use.bytes[kind] += at_place[place].bytes[kind];
      if (use.total() > largest.total()) largest = use;
    }
  }
  return largest;
}

absl::StatusOr<SearchResult> SearchWithin(const SearchProblem& problem, const std::vector<MemoryLimit>& limits,
                                          const SearchLimits& search) {
  return LimitedSearch(problem, limits, search).Run();
}

}  // namespace oneflow
