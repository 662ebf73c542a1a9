#include "compiler/plan/memory.h"

#include <random>

#include "gmock/gmock.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

using ::testing::ElementsAre;

TEST(PackTest, LivesThatDoNotMeetShareMemory) {
  const Packing packing = Pack({{100, 0, 1}, {100, 2, 3}, {100, 1, 2}});
  EXPECT_THAT(packing.offsets, ElementsAre(0, 0, 128));
  EXPECT_EQ(packing.num_bytes, 256);
  EXPECT_EQ(packing.bound, 256);
}

TEST(PackTest, ASmallBufferFillsTheGapBetweenLargeOnes) {
  const Packing packing = Pack({{640, 0, 9}, {320, 0, 4}, {640, 5, 9}, {64, 0, 4}});
  EXPECT_EQ(packing.num_bytes, 1280);
  EXPECT_EQ(packing.offsets[3] + 64 <= 1280, true);
}

TEST(PackTest, RandomLivesNeverOverlapAndStayNearTheBound) {
  double worst = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    std::vector<Life> lives(40);
    for (Life& life : lives) {
      life.num_bytes = random() % 5000;
      life.first = random() % 50;
      life.last = life.first + random() % 10;
    }
    const Packing packing = Pack(lives);
    for (size_t i = 0; i < lives.size(); ++i) {
      ASSERT_EQ(packing.offsets[i] % kAlignment, 0);
      ASSERT_LE(packing.offsets[i] + lives[i].num_bytes, packing.num_bytes);
      for (size_t j = 0; j < i; ++j) {
        const bool together = lives[i].first <= lives[j].last && lives[j].first <= lives[i].last;
        const bool apart = packing.offsets[i] + lives[i].num_bytes <= packing.offsets[j] ||
                           packing.offsets[j] + lives[j].num_bytes <= packing.offsets[i];
        ASSERT_TRUE(!together || apart) << i << " " << j;
      }
    }
    worst = std::max(worst, static_cast<double>(packing.num_bytes) / packing.bound);
  }
  EXPECT_LT(worst, 1.5);
}

}  // namespace
}  // namespace oneflow
