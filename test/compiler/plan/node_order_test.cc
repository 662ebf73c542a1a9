#include "compiler/plan/node_order.h"

#include <numeric>
#include <random>

#include "gmock/gmock.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

TEST(NodeOrderTest, AnUpdateRunsBehindItsGradient) {
  // Three gradients from one buffer, then their updates.
  const std::vector<OrderedNode> nodes = {{{}, {0}, {}},  {{0}, {1}, {0}}, {{0}, {2}, {0}}, {{0}, {3}, {0}},
                                          {{1}, {}, {1}}, {{2}, {}, {2}},  {{3}, {}, {3}}};
  const std::vector<int64_t> bytes = {10, 100, 100, 100};
  EXPECT_EQ(BytesAtPeak(nodes, bytes, {0, 1, 2, 3, 4, 5, 6}), 310);
  const std::vector<int> order = OrderToLiveBriefly(nodes, bytes);
  EXPECT_THAT(order, ElementsAre(0, 1, 4, 2, 5, 3, 6));
  EXPECT_EQ(BytesAtPeak(nodes, bytes, order), 110);
}

TEST(NodeOrderTest, ABufferThatNobodyReadsIsGoneAtOnce) {
  EXPECT_EQ(BytesAtPeak({{{}, {0}, {}}, {{}, {1}, {}}}, {100, 50}, {0, 1}), 100);
}

TEST(NodeOrderTest, RandomChainsKeepTheirOrderAndNeedNoMore) {
  int better = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    std::vector<OrderedNode> nodes(30);
    std::vector<int64_t> bytes;
    for (int i = 0; i < 30; ++i) {
      nodes[i].makes = {i};
      bytes.push_back(static_cast<int64_t>(random() % 100));
      for (int k = 0; i > 0 && k < 2; ++k) {
        const int from = static_cast<int>(random() % i);
        nodes[i].reads.push_back(from);
        nodes[i].after.push_back(from);
      }
    }
    const std::vector<int> order = OrderToLiveBriefly(nodes, bytes);
    ASSERT_EQ(order.size(), nodes.size());
    std::vector<int> position(30, -1), given(30);
    std::iota(given.begin(), given.end(), 0);
    for (int i = 0; i < 30; ++i) position[order[i]] = i;
    for (int i = 0; i < 30; ++i) {
      for (const int before : nodes[i].after) ASSERT_LT(position[before], position[i]);
    }
    const int64_t before = BytesAtPeak(nodes, bytes, given), after = BytesAtPeak(nodes, bytes, order);
    ASSERT_LE(after, before);
    better += after < before;
  }
  EXPECT_GT(better, 100);
}

}  // namespace
}  // namespace oneflow
