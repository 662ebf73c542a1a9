#include "compiler/passes/stage_partition.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace oneflow {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The cost of the slowest stage in the best balanced partition.
double BestBalance(const std::vector<double>& sum, int stages) {
  const int n = static_cast<int>(sum.size()) - 1;
  std::vector<double> best(sum);  // one stage: all items up to j
  for (int stage = 1; stage < stages; ++stage) {
    std::vector<double> next(n + 1, kInfinity);
    for (int j = 0; j <= n; ++j) {
      for (int i = 0; i <= j; ++i) next[j] = std::min(next[j], std::max(best[i], sum[j] - sum[i]));
    }
    best = std::move(next);
  }
  return best[n];
}

}  // namespace

std::vector<int> PartitionIntoStages(const std::vector<double>& cost, const std::vector<int64_t>& cut, int stages,
                                     double slack) {
  const int n = static_cast<int>(cost.size());
  std::vector<double> sum(n + 1, 0);
  for (int i = 0; i < n; ++i) sum[i + 1] = sum[i] + cost[i];
  const double limit = BestBalance(sum, stages) * (1 + slack);

  // best[s][j]: {bytes, slowest stage} of items before j in stages 0..s; start[s][j]: where stage s then begins.
  using Price = std::pair<double, double>;
  std::vector<std::vector<Price>> best(stages, std::vector<Price>(n + 1, {kInfinity, kInfinity}));
  std::vector<std::vector<int>> start(stages, std::vector<int>(n + 1, 0));
  for (int j = 0; j <= n; ++j) {
    if (sum[j] <= limit) best[0][j] = {0, sum[j]};
  }
  for (int stage = 1; stage < stages; ++stage) {
    for (int j = 0; j <= n; ++j) {
      for (int i = 0; i <= j; ++i) {
        if (sum[j] - sum[i] > limit) continue;
        const double bytes = i == 0 || i == n ? 0 : static_cast<double>(cut[i]);
        const Price price{best[stage - 1][i].first + bytes, std::max(best[stage - 1][i].second, sum[j] - sum[i])};
        if (price < best[stage][j]) {
          best[stage][j] = price;
          start[stage][j] = i;
        }
      }
    }
  }
  std::vector<int> stage_of(n, 0);
  for (int stage = stages - 1, end = n; stage >= 0; --stage) {
    const int begin = start[stage][end];
    std::fill(stage_of.begin() + begin, stage_of.begin() + end, stage);
    end = begin;
  }
  return stage_of;
}

}  // namespace oneflow
