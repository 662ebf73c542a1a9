#include "compiler/recompute_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace oneflow {
namespace {

using Chain = std::vector<RecomputableSegment>;

// The least seconds of all choices that fit; infinite if none does.
double LeastOfAll(const Chain& chain, int64_t bytes) {
  const size_t choices = size_t{1} << chain.size();
  std::vector<double> fitting = {std::numeric_limits<double>::infinity()};
  for (size_t bits = 0; bits < choices; ++bits) {
    std::vector<bool> again;
    for (size_t i = 0; i < chain.size(); ++i) again.push_back((bits >> i & 1) != 0);
    if (PeakBytesOf(chain, again) <= bytes) fitting.push_back(SecondsOfAgain(chain, again));
  }
  return *std::min_element(fitting.begin(), fitting.end());
}

TEST(RecomputeChoiceTest, IsTheBestOfAllChoicesOnRandomChains) {
  int chosen = 0, impossible = 0;
  for (uint32_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    Chain chain(1 + random() % 12);
    int64_t all = 0;
    for (RecomputableSegment& segment : chain) {
      segment.kept = 1 + static_cast<int64_t>(random() % 100);
      segment.kept_again = static_cast<int64_t>(random() % (segment.kept + 1)) / 2;
      segment.working = static_cast<int64_t>(random() % 50);
      segment.seconds = static_cast<double>(1 + random() % 1000) * 1e-3;
      all += segment.kept;
    }
    const auto bytes = static_cast<int64_t>(random() % (all + 10));
    const double least = LeastOfAll(chain, bytes);
    const std::optional<std::vector<bool>> choice = ChooseRecomputed(chain, bytes);
    ASSERT_EQ(choice.has_value(), std::isfinite(least));
    if (!choice.has_value()) {
      ++impossible;
      continue;
    }
    EXPECT_LE(PeakBytesOf(chain, *choice), bytes);
    EXPECT_NEAR(SecondsOfAgain(chain, *choice), least, 1e-12);
    chosen += SecondsOfAgain(chain, *choice) > 0;
  }
  EXPECT_GT(chosen, 100);
  EXPECT_GT(impossible, 20);
}

TEST(RecomputeChoiceTest, NothingIsComputedAgainWhereAllFits) {
  const Chain chain(5, RecomputableSegment{10, 1, 0, 1.0});
  EXPECT_EQ(ChooseRecomputed(chain, 50), std::vector<bool>(5, false));
  EXPECT_EQ(SecondsOfAgain(chain, *ChooseRecomputed(chain, 49)), 1.0);
  EXPECT_EQ(ChooseRecomputed(chain, 14), std::vector<bool>({true, true, true, true, false}));
  EXPECT_EQ(ChooseRecomputed(chain, 13), std::nullopt) << "the last has its own beside four beginnings";
}

// A thousand segments, no two of which are alike.
TEST(RecomputeChoiceTest, LongChainsTakeNoLong) {
  std::mt19937 random(1);
  Chain chain(1000);
  int64_t all = 0;
  for (RecomputableSegment& segment : chain) {
    segment = {1'000'000 + static_cast<int64_t>(random() % 1'000'000), 1000, 0,
               static_cast<double>(random() % 1'000'000) * 1e-6};
    all += segment.kept;
  }
  const std::optional<std::vector<bool>> choice = ChooseRecomputed(chain, all / 2);
  ASSERT_TRUE(choice.has_value());
  EXPECT_LE(PeakBytesOf(chain, *choice), all / 2);
  // By seconds for a byte freed, fractions allowed: no choice takes less.
  std::vector<size_t> order(chain.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return chain[a].seconds * static_cast<double>(chain[b].kept) <
           chain[b].seconds * static_cast<double>(chain[a].kept);
  });
  double bound = 0;
  int64_t free = all - all / 2;
  for (size_t i = 0; free > 0; ++i) {
    const int64_t frees = std::min(free, chain[order[i]].kept);
    bound += chain[order[i]].seconds * static_cast<double>(frees) / static_cast<double>(chain[order[i]].kept);
    free -= frees;
  }
  EXPECT_LE(SecondsOfAgain(chain, *choice), 1.02 * bound);
}

}  // namespace
}  // namespace oneflow
