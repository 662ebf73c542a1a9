#include "oneflow_core/union_find.h"

#include <random>

#include "gmock/gmock.h"

namespace oneflow::testing {
namespace {

TEST(UnionFindTest, GroupsGoByTheirLowestNumberWhateverTheOrder) {
  for (unsigned seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    constexpr int kNumbers = 20;
    UnionFind groups(kNumbers);
    std::vector<int> lowest(kNumbers);  // kept the slow way
    std::iota(lowest.begin(), lowest.end(), 0);
    for (int i = 0; i < 15; ++i) {
      const int a = static_cast<int>(random() % kNumbers), b = static_cast<int>(random() % kNumbers);
      groups.Unite(a, b);
      const auto [least, most] = std::minmax(lowest[a], lowest[b]);
      std::replace(lowest.begin(), lowest.end(), int{most}, int{least});
      for (int x = 0; x < kNumbers; ++x) EXPECT_EQ(groups.Find(x), lowest[x]);
    }
  }
}

}  // namespace
}  // namespace oneflow::testing
