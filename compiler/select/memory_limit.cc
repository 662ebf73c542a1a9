#include "compiler/select/memory_limit.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

// Seconds that all bytes of the cheapest choice cost together, at the lowest and the highest price. The highest outweighs
// every boxing that is possible, and not one that is impossible (1e6, see cost_model.h).
constexpr double kLowest = 1e-6, kHighest = 1e5;
constexpr int kBisections = 14;  // to the 1e-3 part of the price

SearchProblem Priced(SearchProblem problem, const MemoryDemand& demand, double seconds_per_byte) {
  for (size_t node = 0; node < problem.nodes.size(); ++node) {
    for (size_t option = 0; option < demand.bytes[node].size(); ++option) {
      problem.nodes[node].options[option].seconds += seconds_per_byte * static_cast<double>(demand.bytes[node][option]);
    }
  }
  return problem;
}

}  // namespace

int64_t LargestDemand(const MemoryDemand& demand, const std::vector<int>& choice) {
  std::map<int, int64_t> on_rank;
  int64_t largest = 0;
  for (size_t node = 0; node < choice.size(); ++node) {
    if (demand.bytes[node].empty()) continue;
    for (int rank : demand.ranks[node]) {
      largest = std::max(largest, on_rank[rank] += demand.bytes[node][choice[node]]);
    }
  }
  return largest;
}

absl::StatusOr<SearchResult> SearchWithin(const SearchProblem& problem, const MemoryDemand& demand, int64_t limit,
                                          const SearchLimits& limits) {
  const SearchResult free = Search(problem, limits);
  const int64_t wanted = LargestDemand(demand, free.choice);
  if (wanted <= limit) return free;
  // The choice for a price; its seconds without it.
  const auto at = [&](double log_price) {
    const double price = std::pow(10, log_price) / static_cast<double>(wanted);
    SearchResult result = Search(Priced(problem, demand, price), limits);
    for (size_t node = 0; node < demand.bytes.size(); ++node) {
      if (!demand.bytes[node].empty()) {
        result.seconds -= price * static_cast<double>(demand.bytes[node][result.choice[node]]);
      }
    }
    return result;
  };
  double low = std::log10(kLowest), high = std::log10(kHighest);
  SearchResult best = at(high);
  if (const int64_t least = LargestDemand(demand, best.choice); least > limit) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "variables need ", least, " bytes on one rank however they are split, ", "but the limit is ", limit));
  }
  for (int i = 0; i < kBisections; ++i) {
    const double middle = (low + high) / 2;
    SearchResult result = at(middle);
    const bool fits = LargestDemand(demand, result.choice) <= limit;
    (fits ? high : low) = middle;
    if (fits) best = std::move(result);
  }
  best.exact = false;
  best.lower_bound = free.lower_bound;
  return best;
}

}  // namespace oneflow
