#include "kernels/copy.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "kernels/device.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

using Ints = std::vector<int64_t>;

TEST(CopyRegionTest, CopiesABoxBetweenShards) {
  // Rows 1-2, columns 1-3 of a 4x5 shard to the upper left corner of a 2x4 one.
  std::vector<float> source(20), target(8, -1);
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<float>(i);
  const Ints extent = {2, 3}, from = {5, 1}, to = {4, 1};
  EXPECT_THAT(CopyRegion({DType::kFloat32, extent, source.data() + 6, from, target.data(), to}), IsNull());
  EXPECT_THAT(target, ElementsAre(6, 7, 8, -1, 11, 12, 13, -1));
}

TEST(CopyRegionTest, AScalarIsABoxOfRankZero) {
  const int64_t source = 42;
  int64_t target = 1;
  EXPECT_THAT(CopyRegion({DType::kInt64, {}, &source, {}, &target, {}}), IsNull());
  EXPECT_EQ(target, 42);
  EXPECT_THAT(CopyRegion({DType::kInt64, {}, &source, {}, &target, {}, true}), IsNull());
  EXPECT_EQ(target, 84);
}

TEST(CopyRegionTest, CombinesBySumMaxAndMin) {
  const std::vector<int32_t> source = {1, 7, -3};
  const Ints extent = {3}, stride = {1};
  const auto combined = [&](Reduction reduce) {
    std::vector<int32_t> target = {5, 5, 5};
    EXPECT_THAT(CopyRegion({DType::kInt32, extent, source.data(), stride, target.data(), stride, true, reduce}),
                IsNull());
    return target;
  };
  EXPECT_THAT(combined(Reduction::kSum), ElementsAre(6, 12, 2));
  EXPECT_THAT(combined(Reduction::kMax), ElementsAre(5, 7, 5));
  EXPECT_THAT(combined(Reduction::kMin), ElementsAre(1, 5, -3));
}

TEST(CopyRegionTest, HalfFloatsAreSummedAsFloats) {
  const uint16_t source = 0x3f80;  // bf16 1
  uint16_t target = 0x4000;        // bf16 2
  EXPECT_THAT(CopyRegion({DType::kBFloat16, {}, &source, {}, &target, {}, true}), IsNull());
  EXPECT_EQ(target, 0x4040);  // bf16 3
}

TEST(CopyRegionTest, AddendsOfHalvesAreAddedUpAsFloatsAndTheSumIsRoundedOnce) {
  // bf16 has 8 bits: 256 + 1 is 256 again, however often, but 256 + (1 + 1) is 258. Long runs are added in chunks.
  constexpr int64_t kCount = 5000;
  const std::vector<uint16_t> large(kCount, 0x4380), one(kCount, 0x3f80);
  const Ints extent = {kCount}, stride = {1};
  const auto sum = [&](const std::vector<uint16_t>& first, std::vector<const void*> addends) {
    std::vector<uint16_t> target(kCount, 0x7fc0);
    EXPECT_THAT(CopyRegion({DType::kBFloat16, extent, first.data(), stride, target.data(), stride, false,
                            Reduction::kSum, addends}),
                IsNull());
    return target;
  };
  EXPECT_THAT(sum(large, {one.data(), one.data()}), Each(0x4381));
  EXPECT_THAT(sum(one, {one.data(), large.data()}), Each(0x4381));
  // Also where the sources run along the other dimension, and where the target counts.
  const Ints box = {50, 100}, columns = {1, 50}, rows = {100, 1};
  for (const bool accumulate : {false, true}) {
    std::vector<uint16_t> target(kCount, 0x3f80);
    const std::vector<const void*> addends = {one.data(), one.data()};
    EXPECT_THAT(CopyRegion({DType::kBFloat16, box, large.data(), columns, target.data(), rows, accumulate,
                            Reduction::kSum, addends}),
                IsNull());
    EXPECT_THAT(target, Each(accumulate ? 0x4382 : 0x4381))
        << accumulate;  // 259 is as near to 258 as to 260, the even one
  }
}

TEST(CopyRegionTest, EmptyBoxesTouchNothing) {
  const Ints extent = {3, 0}, stride = {0, 1};
  EXPECT_THAT(CopyRegion({DType::kFloat32, extent, nullptr, stride, nullptr, stride}), IsNull());
}

TEST(CopyRegionTest, SaysWhatItCannotDo) {
  bool source = true, target = false;
  EXPECT_STREQ(CopyRegion({DType::kBool, {}, &source, {}, &target, {}, true}), "CopyRegion: bool cannot be reduced");
  const Ints extent = {1}, none;
  EXPECT_STREQ(CopyRegion({DType::kBool, extent, &source, none, &target, extent}),
               "CopyRegion: extent and strides have different ranks");
}

// Element by element, as the definition says.
template <typename T>
void Naive(const Ints& extent, const T* source, const Ints& from, T* target, const Ints& to, bool accumulate) {
  int64_t count = 1;
  for (const int64_t n : extent) count *= n;
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, source_at = 0, target_at = 0;
    for (size_t d = extent.size(); d-- > 0;) {
      source_at += rest % extent[d] * from[d];
      target_at += rest % extent[d] * to[d];
      rest /= extent[d];
    }
    target[target_at] = accumulate ? target[target_at] + source[source_at] : source[source_at];
  }
}

TEST(CopyRegionTest, AgreesWithTheDefinitionOnRandomBoxes) {
  constexpr uint64_t kSeed = 3;
  std::mt19937_64 random(kSeed);
  const auto device = MakeCpuDevice(2);
  device->BindThread();
  for (int round = 0; round < 400; ++round) {
    SCOPED_TRACE(::testing::Message() << "seed " << kSeed << " round " << round);
    const size_t rank = random() % 5;
    Ints extent(rank), from_dims(rank), to_dims(rank), from_order(rank), to_order(rank), from(rank), to(rank);
    for (size_t d = 0; d < rank; ++d) {
      extent[d] = 1 + random() % (rank <= 2 ? 90 : 7);
      from_dims[d] = extent[d] + random() % 2;
      to_dims[d] = extent[d] + random() % 2;
      from_order[d] = to_order[d] = d;
    }
    if (round % 2 == 0) std::shuffle(from_order.begin(), from_order.end(), random);
    if (round % 4 == 0) std::shuffle(to_order.begin(), to_order.end(), random);
    int64_t source_count = 1, target_count = 1;
    for (size_t i = rank; i-- > 0;) {
      from[from_order[i]] = source_count;
      source_count *= from_dims[from_order[i]];
      to[to_order[i]] = target_count;
      target_count *= to_dims[to_order[i]];
    }
    if (rank > 0 && round % 5 == 0) from[random() % rank] = 0;  // broadcast
    std::vector<int32_t> source(source_count), want(target_count);
    for (int32_t& x : source) x = static_cast<int32_t>(random() % 1000);
    for (int32_t& x : want) x = static_cast<int32_t>(random() % 1000);
    std::vector<int32_t> got = want;
    const bool accumulate = round % 3 == 0;
    Naive(extent, source.data(), from, want.data(), to, accumulate);
    std::vector<std::vector<int32_t>> more(round % 7 % 4, source);
    std::vector<const void*> addends;
    for (std::vector<int32_t>& addend : more) {
      for (int32_t& x : addend) x = static_cast<int32_t>(random() % 1000);
      Naive(extent, addend.data(), from, want.data(), to, /*accumulate=*/true);
      addends.push_back(addend.data());
    }
    ASSERT_THAT(
        CopyRegion({DType::kInt32, extent, source.data(), from, got.data(), to, accumulate, Reduction::kSum, addends}),
        IsNull());
    ASSERT_EQ(got, want);
  }
}

TEST(FillZeroTest, ClearsExactlyTheBytesAsked) {
  std::vector<char> bytes(100003, 1);
  FillZero(bytes.data() + 1, bytes.size() - 2);
  EXPECT_EQ(bytes.front(), 1);
  EXPECT_EQ(bytes.back(), 1);
  EXPECT_EQ(std::count(bytes.begin(), bytes.end(), 0), 100001);
}

}  // namespace
}  // namespace oneflow
