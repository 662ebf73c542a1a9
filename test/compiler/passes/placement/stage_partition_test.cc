#include "compiler/passes/placement/stage_partition.h"

#include <numeric>
#include <random>

#include "gmock/gmock.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

TEST(StagePartitionTest, BalancesTheSlowestStage) {
  EXPECT_THAT(PartitionIntoStages({1, 1, 1, 1, 4}, {0, 0, 0, 0, 0, 0}, 2, 0), ElementsAre(0, 0, 0, 0, 1));
  EXPECT_THAT(PartitionIntoStages({2, 2, 2, 2, 2, 2}, {0, 0, 0, 0, 0, 0, 0}, 3, 0), ElementsAre(0, 0, 1, 1, 2, 2));
}

TEST(StagePartitionTest, TakesTheCheapestCutAmongBalancedOnes) {
  // Both cuts 4 | 4.4 and 4.4 | 4 are within a tenth of the best.
  EXPECT_THAT(PartitionIntoStages({4, 0.4, 4}, {0, 100, 1, 0}, 2, 0.1), ElementsAre(0, 0, 1));
  EXPECT_THAT(PartitionIntoStages({4, 0.4, 4}, {0, 1, 100, 0}, 2, 0.1), ElementsAre(0, 1, 1));
}

TEST(StagePartitionTest, DoesNotTradeBalanceForBytesBeyondTheSlack) {
  EXPECT_THAT(PartitionIntoStages({4, 4, 4, 4}, {0, 1, 100, 1, 0}, 2, 0.1), ElementsAre(0, 0, 1, 1));
}

TEST(StagePartitionTest, CopesWithFewerItemsThanStages) {
  EXPECT_THAT(PartitionIntoStages({}, {0}, 3, 0.1), IsEmpty());
  const std::vector<int> stages = PartitionIntoStages({5}, {0, 0}, 3, 0.1);
  ASSERT_EQ(stages.size(), 1u);
  EXPECT_GE(stages[0], 0);
  EXPECT_LT(stages[0], 3);
}

TEST(StagePartitionTest, SharesDivideTheWork) {
  const std::vector<int64_t> no_cuts(7, 0);
  EXPECT_THAT(PartitionIntoStages({1, 1, 1, 1, 1, 1}, no_cuts, {2, 1}, 0), ElementsAre(0, 0, 0, 0, 1, 1));
  EXPECT_THAT(PartitionIntoStages({1, 1, 1, 1, 1, 1}, no_cuts, {0.5, 2, 0.5}, 0), ElementsAre(0, 1, 1, 1, 1, 2));
}

// Bytes over the cuts of a partition, and its slowest stage.
using Quality = std::pair<double, double>;

// Of a partition, which must be contiguous.
Quality QualityOf(const std::vector<double>& cost, const std::vector<int64_t>& cut, const std::vector<double>& shares,
                  const std::vector<int>& stage_of) {
  std::vector<double> sum(cost.size() + 1, 0);
  for (size_t i = 0; i < cost.size(); ++i) sum[i + 1] = sum[i] + cost[i];
  Quality quality{0, 0};
  size_t begin = 0, end = 0;
  for (int stage = 0; stage < static_cast<int>(shares.size()); ++stage, begin = end) {
    while (end < cost.size() && stage_of[end] == stage) ++end;
    quality.second = std::max(quality.second, (sum[end] - sum[begin]) / shares[stage]);
    if (stage > 0 && begin > 0 && begin < cost.size()) quality.first += static_cast<double>(cut[begin]);
  }
  EXPECT_EQ(end, cost.size()) << "stages are out of order";
  return quality;
}

// The best quality of items from `begin` on within `limit`, by trying all partitions. `start`: bytes of the cut before
// them.
Quality BestOfAll(const std::vector<double>& sum, const std::vector<int64_t>& cut, size_t begin,
                  absl::Span<const double> shares, double limit) {
  const size_t n = sum.size() - 1;
  const auto cost_to = [&](size_t end) { return (sum[end] - sum[begin]) / shares[0]; };
  Quality best{std::numeric_limits<double>::infinity(), 0};
  if (shares.size() == 1) return cost_to(n) <= limit ? Quality{0, cost_to(n)} : best;
  for (size_t end = begin; end <= n && cost_to(end) <= limit; ++end) {
    Quality rest = BestOfAll(sum, cut, end, shares.subspan(1), limit);
    if (end > 0 && end < n) rest.first += static_cast<double>(cut[end]);
    best = std::min(best, {rest.first, std::max(rest.second, cost_to(end))});
  }
  return best;
}

// The largest stage of the best partition, by trying all.
double BruteForce(const std::vector<double>& cost, size_t begin, int stages) {
  if (stages == 1) return std::accumulate(cost.begin() + begin, cost.end(), 0.0);
  double best = std::numeric_limits<double>::infinity(), sum = 0;
  for (size_t end = begin; end <= cost.size(); ++end) {
    best = std::min(best, std::max(sum, BruteForce(cost, end, stages - 1)));
    if (end < cost.size()) sum += cost[end];
  }
  return best;
}

TEST(StagePartitionTest, IsAsGoodAsTheBestOfAllPartitions) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 400; ++round) {
    SCOPED_TRACE(::testing::Message() << "round " << round);
    std::vector<double> cost(random() % 10), sum = {0};
    const int largest = 1 + random() % 20;  // few different ones make ties
    for (double& c : cost) sum.push_back(sum.back() + (c = random() % largest));
    std::vector<int64_t> cut(cost.size() + 1);
    for (int64_t& bytes : cut) bytes = random() % largest;
    std::vector<double> shares(1 + random() % 4, 1);
    if (round % 2 == 1) {
      for (double& share : shares) share = 0.5 * (1 + random() % 6);
    }
    const double slack = 0.15 * (random() % 4);
    const std::vector<int> even = PartitionIntoStages(cost, std::vector<int64_t>(cut.size(), 0), shares, 0);
    const double limit = QualityOf(cost, cut, shares, even).second * (1 + slack);
    EXPECT_EQ(QualityOf(cost, cut, shares, PartitionIntoStages(cost, cut, shares, slack)),
              BestOfAll(sum, cut, 0, shares, limit));
  }
}

// Quadratic time would take hours here.
TEST(StagePartitionTest, CutsAHundredThousandItemsIntoManyStages) {
  std::mt19937 random(1);
  std::vector<double> cost(100'000);
  std::vector<int64_t> cut(cost.size() + 1);
  for (double& c : cost) c = random() % 1000;
  for (int64_t& bytes : cut) bytes = random() % 5000;
  const std::vector<int> stage_of = PartitionIntoStages(cost, cut, 64, 0.15);
  const double average = std::accumulate(cost.begin(), cost.end(), 0.0) / 64;
  EXPECT_LE(QualityOf(cost, cut, std::vector<double>(64, 1), stage_of).second, average * 1.16);
}

TEST(StagePartitionTest, AgreesWithTryingAllPartitions) {
  for (unsigned seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    std::vector<double> cost(1 + random() % 9);
    for (double& c : cost) c = 1 + random() % 20;
    const int stages = 1 + random() % 4;
    const std::vector<int> result = PartitionIntoStages(cost, std::vector<int64_t>(cost.size() + 1, 0), stages, 0);
    std::vector<double> sum(stages, 0);
    for (size_t i = 0; i < cost.size(); ++i) {
      sum[result[i]] += cost[i];
      if (i > 0) {
        EXPECT_GE(result[i], result[i - 1]);
      }
    }
    EXPECT_DOUBLE_EQ(*std::max_element(sum.begin(), sum.end()), BruteForce(cost, 0, stages));
  }
}

}  // namespace
}  // namespace oneflow
