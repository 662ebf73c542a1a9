#include "compiler/passes/placement/stage_partition.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <limits>
#include <utility>

namespace oneflow {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Shares = absl::Span<const double>;

// Whether stages of at most `limit` hold all items. Filling each as far as possible leaves the least to the rest.
bool Fits(const std::vector<double>& sum, Shares shares, double limit) {
  auto begin = sum.begin();
  for (const double share : shares) {
    begin = std::partition_point(begin, sum.end(), [&](double end) { return (end - *begin) / share <= limit; }) - 1;
  }
  return begin == sum.end() - 1;
}

// The cost of the slowest stage in the best balanced partition. Doubles that are not negative are ordered like their
// bits, so halving the range of bits finds the exact minimum in 64 steps.
double BestBalance(const std::vector<double>& sum, Shares shares) {
  uint64_t least = 0, enough = std::bit_cast<uint64_t>(sum.back() / shares[0]);
  while (least < enough) {
    const uint64_t middle = least + (enough - least) / 2;
    if (Fits(sum, shares, std::bit_cast<double>(middle))) {
      enough = middle;
    } else {
      least = middle + 1;
    }
  }
  return std::bit_cast<double>(enough);
}

// Of the items before a boundary, in the stages so far: bytes over the cuts, then the slowest stage.
using Price = std::pair<double, double>;

// The stages of one share, whatever precedes and follows them.
struct StageCosts {
  const std::vector<double>& sum;
  double share;

  double Of(int begin, int end) const { return (sum[end] - sum[begin]) / share; }
};

// The price behind a stage from `begin` to `end`; `begun`: the price before it with the bytes at `begin`.
Price PriceAt(const StageCosts& costs, int begin, int end, const Price& begun) {
  return {begun.first, std::max(begun.second, costs.Of(begin, end))};
}

// The price before a stage that begins at `begin`, with the bytes that cross there.
Price Begun(const std::vector<Price>& before, const std::vector<int64_t>& cut, int begin) {
  const bool at_an_end = begin == 0 || begin + 1 == static_cast<int>(before.size());
  return {before[begin].first + (at_an_end ? 0 : static_cast<double>(cut[begin])), before[begin].second};
}

// The boundaries at which the last stage may begin, while its end moves on. A boundary is kept only while it can still
// be the best one, now or when those before it have become too far away:
//
//   - bytes grow from front to back: a boundary with fewer bytes is better than all before it;
//   - of equal bytes the earlier ones have the faster stages before them and the longer last stage. The end moves on,
//     so once the later of two is better it stays so.
class Beginnings {
 public:
  Beginnings(const StageCosts& costs, double limit) : costs_(costs), limit_(limit) {}

  void Add(int begin, const Price& begun) {
    while (!kept_.empty() && Beats(begin, begun, kept_.back())) kept_.pop_back();
    const bool worse = !kept_.empty() && kept_.back().begun.first == begun.first &&
                       costs_.sum[kept_.back().begin] == costs_.sum[begin];
    if (!worse) kept_.push_back({begin, begun});
  }

  // The best price of a stage that ends at `end`; infinite if it can begin nowhere. REQUIRES: `end` grows.
  Price Best(int end) {
    while (!kept_.empty() && costs_.Of(kept_.front().begin, end) > limit_) kept_.pop_front();
    while (kept_.size() > 1 && At(kept_[1], end) < At(kept_[0], end)) kept_.pop_front();
    return kept_.empty() ? Price{kInfinity, kInfinity} : At(kept_.front(), end);
  }

 private:
  struct Beginning {
    int begin;
    Price begun;
  };

  // Whether the later `begin` is better than `other` for every end of the stage.
  bool Beats(int begin, const Price& begun, const Beginning& other) const {
    if (begun.first != other.begun.first) return begun.first < other.begun.first;
    if (begun.second != other.begun.second) return begun.second < other.begun.second;
    return costs_.sum[begin] > costs_.sum[other.begin];
  }

  Price At(const Beginning& beginning, int end) const { return PriceAt(costs_, beginning.begin, end, beginning.begun); }

  const StageCosts costs_;
  const double limit_;
  std::deque<Beginning> kept_;
};

// From the best prices of some stages, by their end, to those of one more.
std::vector<Price> AddStage(const std::vector<Price>& before, const StageCosts& costs, const std::vector<int64_t>& cut,
                            double limit) {
  std::vector<Price> best;
  best.reserve(before.size());
  Beginnings beginnings(costs, limit);
  for (int end = 0; end < static_cast<int>(before.size()); ++end) {
    if (before[end].first < kInfinity) beginnings.Add(end, Begun(before, cut, end));
    best.push_back(beginnings.Best(end));
  }
  return best;
}

// The first place where a stage that ends at `end` may begin at the price `best`.
int FirstBeginning(const std::vector<Price>& before, const StageCosts& costs, const std::vector<int64_t>& cut,
                   double limit, int end, const Price& best) {
  int begin = 0;
  while (costs.Of(begin, end) > limit || PriceAt(costs, begin, end, Begun(before, cut, begin)) != best) ++begin;
  return begin;
}

}  // namespace

std::vector<int> PartitionIntoStages(const std::vector<double>& cost, const std::vector<int64_t>& cut, Shares shares,
                                     double slack) {
  const int stages = static_cast<int>(shares.size());
  const int n = static_cast<int>(cost.size());
  std::vector<double> sum(n + 1, 0);
  for (int i = 0; i < n; ++i) sum[i + 1] = sum[i] + cost[i];
  const double limit = BestBalance(sum, shares) * (1 + slack);

  std::vector<std::vector<Price>> best(1,
                                       std::vector<Price>(n + 1, {kInfinity, kInfinity}));  // by last stage, by its end
  const StageCosts first{sum, shares[0]};
  for (int end = 0; end <= n && first.Of(0, end) <= limit; ++end) best[0][end] = {0, first.Of(0, end)};
  for (const double share : shares.subspan(1)) best.push_back(AddStage(best.back(), {sum, share}, cut, limit));

  std::vector<int> stage_of(n, 0);
  for (int stage = stages - 1, end = n; stage > 0; --stage) {
    const int begin = FirstBeginning(best[stage - 1], {sum, shares[stage]}, cut, limit, end, best[stage][end]);
    std::fill(stage_of.begin() + begin, stage_of.begin() + end, stage);
    end = begin;
  }
  return stage_of;
}

std::vector<int> PartitionIntoStages(const std::vector<double>& cost, const std::vector<int64_t>& cut, int stages,
                                     double slack) {
  return PartitionIntoStages(cost, cut, std::vector<double>(stages, 1), slack);
}

}  // namespace oneflow
