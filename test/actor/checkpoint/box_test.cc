#include "actor/checkpoint/box.h"

#include <algorithm>
#include <map>
#include <random>

#include "gmock/gmock.h"

namespace oneflow {
namespace {

using Rng = std::mt19937;

int64_t Draw(Rng& rng, int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(rng); }

// Cuts the box again and again, as nested splits do; uneven, too.
void CutUp(const Box& box, int depth, Rng& rng, std::vector<Box>& pieces) {
  const int d = box.rank() == 0 ? 0 : static_cast<int>(Draw(rng, 0, box.rank() - 1));
  if (depth == 0 || box.rank() == 0 || box.extent[d] < 2) return pieces.push_back(box);
  Box low = box, high = box;
  low.extent[d] = Draw(rng, 1, box.extent[d] - 1);
  high.start[d] += low.extent[d];
  high.extent[d] -= low.extent[d];
  CutUp(low, depth - 1, rng, pieces);
  CutUp(high, depth - 1, rng, pieces);
}

Box RandomBox(Rng& rng, const std::vector<int64_t>& dims) {
  Box box = WholeBox(dims);
  for (size_t d = 0; d < dims.size(); ++d) {
    box.start[d] = Draw(rng, 0, dims[d] - 1);
    box.extent[d] = Draw(rng, 1, dims[d] - box.start[d]);
  }
  return box;
}

// Where every logical element lies in the box, by its number in the whole.
std::map<int64_t, int64_t> Places(const Box& box, const std::vector<int64_t>& dims) {
  std::map<int64_t, int64_t> places;
  for (int64_t place = 0; place < box.count(); ++place) {
    int64_t rest = place, logical = 0, stride = 1;
    for (int d = box.rank() - 1; d >= 0; --d) {
      logical += (box.start[d] + rest % box.extent[d]) * stride;
      rest /= box.extent[d];
      stride *= dims[d];
    }
    places[logical] = place;
  }
  return places;
}

TEST(BoxTest, CommonRunsAreTheElementsThatBothHaveEachOnceByAscendingPlaces) {
  Rng rng(1);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<int64_t> dims(static_cast<size_t>(Draw(rng, 0, 3)));
    for (int64_t& size : dims) size = Draw(rng, 1, 5);
    const Box a = RandomBox(rng, dims), b = RandomBox(rng, dims);
    const std::map<int64_t, int64_t> in_a = Places(a, dims), in_b = Places(b, dims);
    std::map<int64_t, int64_t> want, got;  // place in a -> place in b
    for (const auto& [logical, place] : in_a) {
      if (in_b.contains(logical)) want[place] = in_b.at(logical);
    }
    int64_t last = -1;
    ForEachCommonRun(a, b, [&](int64_t from, int64_t to, int64_t length) {
      EXPECT_GT(from, last);
      last = from + length - 1;
      for (int64_t i = 0; i < length; ++i) EXPECT_TRUE(got.emplace(from + i, to + i).second);
    });
    EXPECT_EQ(got, want) << a.ToString() << " and " << b.ToString();
  }
}

TEST(BoxTest, WholeShardsAreOneRun) {
  int runs = 0;
  const auto count = [&](int64_t, int64_t, int64_t) { ++runs; };
  ForEachCommonRun(WholeBox({4, 6}), Box{{1, 0}, {2, 6}}, count);
  EXPECT_EQ(runs, 1);
  ForEachCommonRun(WholeBox({4, 6}), Box{{1, 2}, {3, 2}}, count);
  EXPECT_EQ(runs, 4) << "three rows of a split by columns";
}

TEST(BoxTest, NestedSplitsTileTheirWholeAndNothingElseDoes) {
  Rng rng(2);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<int64_t> dims(static_cast<size_t>(Draw(rng, 1, 3)));
    for (int64_t& size : dims) size = Draw(rng, 1, 9);
    const Box whole = WholeBox(dims);
    std::vector<Box> pieces;
    CutUp(whole, 4, rng, pieces);
    std::shuffle(pieces.begin(), pieces.end(), rng);
    EXPECT_TRUE(Tile(whole, pieces)) << whole.ToString();

    std::vector<Box> missing = pieces;
    missing.pop_back();
    EXPECT_FALSE(Tile(whole, missing));
    std::vector<Box> twice = pieces;
    twice.push_back(pieces[0]);
    EXPECT_FALSE(Tile(whole, twice));
    std::vector<Box> moved = pieces;
    moved.back().start[0] += 1;
    EXPECT_FALSE(Tile(whole, moved));
    if (pieces.size() > 1) {  // as many elements, another place
      std::vector<Box> doubled = pieces;
      doubled.back() = doubled.front();
      EXPECT_FALSE(Tile(whole, doubled));
    }
  }
}

TEST(BoxTest, ThousandsOfSlicesAreLookedAtQuickly) {
  std::vector<Box> slices;
  for (int64_t i = 0; i < 30'000; ++i) slices.push_back({{i, 0}, {1, 4}});
  EXPECT_TRUE(Tile(WholeBox({30'000, 4}), slices));
}

TEST(BoxTest, AScalarIsOneElement) {
  EXPECT_EQ(WholeBox({}).count(), 1);
  EXPECT_EQ(WholeBox({}).ToString(), "[]");
  EXPECT_TRUE(Tile(WholeBox({}), {WholeBox({})}));
  EXPECT_EQ((Box{{1, 0}, {2, 5}}).ToString(), "[1:3,0:5]");
}

}  // namespace
}  // namespace oneflow
