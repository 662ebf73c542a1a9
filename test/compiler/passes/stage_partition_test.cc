#include "compiler/passes/stage_partition.h"

#include <numeric>
#include <random>

#include "gmock/gmock.h"

namespace oneflow {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

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
