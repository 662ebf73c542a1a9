#include "compiler/plan/packing.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "gmock/gmock.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

Claim At(int64_t num_bytes, int first, int last, int rank_class = 0) {
  return {.num_bytes = num_bytes, .when = {{rank_class, first, last}}};
}

TEST(PackTest, UsesThatDoNotMeetShareMemory) {
  const Packing packing = Pack({At(100, 0, 1), At(100, 2, 3), At(100, 1, 2)}, {Clock{4, {}}});
  EXPECT_THAT(packing.offsets, ElementsAre(0, 0, 128));
  EXPECT_THAT(packing.num_bytes, ElementsAre(256));
  EXPECT_THAT(packing.bound, ElementsAre(256));
  ASSERT_EQ(packing.fullest.size(), 1u);
  EXPECT_EQ(packing.fullest[0].tick, 1);
  EXPECT_EQ(packing.fullest[0].actor, -1);
}

TEST(PackTest, ASmallBufferFillsTheGapBetweenLargeOnes) {
  const Packing packing = Pack({At(640, 0, 9), At(320, 0, 4), At(640, 5, 9), At(64, 0, 4)}, {Clock{10, {}}});
  EXPECT_THAT(packing.num_bytes, ElementsAre(1280));
  EXPECT_LE(packing.offsets[3] + 64, 1280);
}

TEST(PackTest, ClassesWithoutARankInCommonDoNotMeet) {
  Claim both = At(64, 0, 3);
  both.when.push_back({1, 2, 3});
  const Packing packing = Pack({At(128, 0, 3, 0), At(128, 0, 1, 1), both}, {Clock{4, {}}, Clock{4, {}}});
  EXPECT_THAT(packing.offsets, ElementsAre(64, 0, 0));
  EXPECT_THAT(packing.num_bytes, ElementsAre(192, 128));
  EXPECT_THAT(packing.bound, ElementsAre(192, 128));
}

TEST(PackTest, WorkspacesOfTwoActorsNeverMeet) {
  Claim a = At(128, 0, 3), b = At(128, 0, 3), c = At(128, 0, 3);
  a.actor = b.actor = 0;
  c.actor = 1;
  b.first = b.last = 1;
  const Packing packing = Pack({a, b, c, At(64, 2, 2)}, {Clock{4, {}}});
  EXPECT_THAT(packing.offsets, ElementsAre(0, 0, 0, 128));
}

TEST(PackTest, LargeTensorsBeginAtDifferentPlacesOfAPage) {
  const std::vector<Claim> claims(64, At(64 << 10, 0, 0));
  const Packing packing = Pack(claims, {Clock{1, {}}});
  std::set<int64_t> places;
  for (const int64_t offset : packing.offsets) places.insert(offset % 4096);
  EXPECT_EQ(places.size(), 64u);
  EXPECT_LE(packing.num_bytes[0], 64 * ((64 << 10) + 192));
}

TEST(PackTest, RandomUsesNeverOverlap) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    std::vector<Claim> claims;
    for (int i = 0; i < 60; ++i) {
      Claim claim{.num_bytes = static_cast<int64_t>(random() % 5000)};
      for (int c = 0; c < 2; ++c) {
        const int first = static_cast<int>(random() % 50);
        if (c == 0 || random() % 2 == 0) claim.when.push_back({c, first, first + static_cast<int>(random() % 10)});
      }
      if (random() % 3 == 0) {  // an act at ticks 20 to 27 or 40 to 47
        claim.actor = static_cast<int>(random() % 2);
        claim.first = static_cast<int>(random() % 5);
        claim.last = claim.first + static_cast<int>(random() % 3);
        const int act = 20 + 20 * claim.actor;
        claim.when = {{0, act + claim.first, act + claim.last}};
      }
      claims.push_back(claim);
    }
    const Packing packing = Pack(claims, {Clock{60, {}}, Clock{60, {}}});
    for (size_t i = 0; i < claims.size(); ++i) {
      ASSERT_EQ(packing.offsets[i] % kAlignment, 0);
      for (const Ticks& ticks : claims[i].when) {
        ASSERT_LE(packing.offsets[i] + claims[i].num_bytes, packing.num_bytes[ticks.rank_class]);
      }
      for (size_t j = 0; j < i; ++j) {
        const bool apart = packing.offsets[i] + claims[i].num_bytes <= packing.offsets[j] ||
                           packing.offsets[j] + claims[j].num_bytes <= packing.offsets[i];
        ASSERT_TRUE(!Meet(claims[i], claims[j]) || apart) << i << " " << j;
      }
    }
    for (int c = 0; c < 2; ++c) ASSERT_LE(packing.bound[c], packing.num_bytes[c]);
  }
}

TEST(PackTest, RandomUsesInOneClassStayNearTheBound) {
  double worst = 0, sum = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    std::vector<Claim> claims;
    for (int i = 0; i < 60; ++i) {
      const int first = static_cast<int>(random() % 50);
      claims.push_back(At(static_cast<int64_t>(random() % 50000), first, first + static_cast<int>(random() % 10)));
    }
    const Packing packing = Pack(claims, {Clock{60, {}}});
    const double ratio = static_cast<double>(packing.num_bytes[0]) / packing.bound[0];
    worst = std::max(worst, ratio);
    sum += ratio;
  }
  EXPECT_LT(worst, 1.09);
  EXPECT_LT(sum / 200, 1.008);
}

// So many that they are packed as time goes on.
TEST(PackTest, ManyUsesNeverOverlapAndStayNearTheBound) {
  constexpr int kClaims = 60000, kTicks = 30000;
  std::mt19937 random(1);
  std::vector<Claim> claims;
  for (int i = 0; i < kClaims; ++i) {
    const int first = static_cast<int>(random() % kTicks);
    const int last = std::min<int>(kTicks - 1, first + static_cast<int>(random() % 8000));
    claims.push_back(At(64 * (1 + static_cast<int64_t>(random() % 16)), first, last));
    if (i % 1000 == 0) claims.back().when[0] = {0, first, kTicks - 1};
    if (i % 1000 == 0 && first > 10) claims.back().when.insert(claims.back().when.begin(), {0, 0, first / 2});
  }
  const Packing packing = Pack(claims, {Clock{kTicks, {}}});
  std::vector<int> by_offset(kClaims);
  std::iota(by_offset.begin(), by_offset.end(), 0);
  std::sort(by_offset.begin(), by_offset.end(), [&](int a, int b) { return packing.offsets[a] < packing.offsets[b]; });
  for (size_t i = 0; i < by_offset.size(); ++i) {
    const Claim& a = claims[by_offset[i]];
    const int64_t end = packing.offsets[by_offset[i]] + a.num_bytes;
    for (size_t j = i + 1; j < by_offset.size() && packing.offsets[by_offset[j]] < end; ++j) {
      ASSERT_FALSE(Meet(a, claims[by_offset[j]])) << by_offset[i] << " " << by_offset[j];
    }
  }
  EXPECT_LT(packing.num_bytes[0], 1.025 * packing.bound[0]);
}

// What is made beside ever larger buffers and outlives them: as time goes on, no such buffer fits where the last one
// was.
TEST(PackTest, ManyUsesThatLeaveHolesAreStillNearTheBound) {
  constexpr int kSteps = 4000;
  std::vector<Claim> claims;
  for (int i = 0; i < kSteps; ++i) {
    claims.push_back(At(64 * (100 + i), 2 * i, 2 * i + 1));
    claims.push_back(At(64, 2 * i + 1, 2 * kSteps - 1));
  }
  const Packing packing = Pack(claims, {Clock{2 * kSteps, {}}});
  EXPECT_LT(packing.num_bytes[0], 1.05 * packing.bound[0]);
}

}  // namespace
}  // namespace oneflow
