#include "tools/control/worker/value_counts.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "kernels/bfloat16.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

void Add(const std::vector<float>& values, ValueCounts& counts) {
  counts.Add(DType::kFloat32, reinterpret_cast<const char*>(values.data()), static_cast<int64_t>(values.size()));
}

TEST(ValueCountsTest, BucketsLieBetweenPowersOfTwoByEighths) {
  ValueCounts counts;
  Add({1, 1.1f, 1.125f, -1, -1.1f, 0, 4}, counts);
  const pb::tensorboard::Histogram histogram = counts.ToHistogram();
  EXPECT_THAT(histogram.bucket(), ElementsAre(2, 0, 1, 0, 2, 1, 0, 1));
  EXPECT_EQ(histogram.bucket_limit(0), -1);     // of -1.1 and -1
  EXPECT_EQ(histogram.bucket_limit(1), 0);      // of none
  EXPECT_EQ(histogram.bucket_limit(3), 1);      // of none
  EXPECT_EQ(histogram.bucket_limit(4), 1.125);  // of 1 and 1.1
  EXPECT_EQ(histogram.bucket_limit(5), 1.25);   // of 1.125
  EXPECT_EQ(histogram.bucket_limit(6), 4);      // of none
  EXPECT_EQ(histogram.bucket_limit(7), 4.5);    // of 4
  EXPECT_EQ(histogram.num(), 7);
  EXPECT_FLOAT_EQ(histogram.min(), -1.1f);
  EXPECT_EQ(histogram.max(), 4);
}

// Whoever counted which part, and whatever a part looks like.
TEST(ValueCountsTest, PartsAddUpToTheWhole) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<float> all;
  ValueCounts whole, sum;
  for (int part = 0; part < 4; ++part) {
    std::vector<float> values(part * 1000);
    for (float& value : values) value = normal(random);
    all.insert(all.end(), values.begin(), values.end());
    ValueCounts counts;
    Add(values, counts);
    sum.Add(counts.ToProto());
  }
  Add(all, whole);
  const pb::VariableCounted want = whole.ToProto(), got = sum.ToProto();
  EXPECT_THAT(got.buckets(), ::testing::ElementsAreArray(want.buckets()));
  EXPECT_THAT(got.counts(), ::testing::ElementsAreArray(want.counts()));
  EXPECT_EQ(got.least(), want.least());
  EXPECT_EQ(got.greatest(), want.greatest());
  EXPECT_NEAR(got.sum_of_squares(), want.sum_of_squares(), 1e-9);
  EXPECT_LT(got.buckets_size(), 300) << "what travels of a variable";
}

TEST(ValueCountsTest, TypesOf16BitsAndIntegersAreCountedToo) {
  const std::vector<uint16_t> values = {ToBFloat16(0.5f), ToBFloat16(-2)};
  ValueCounts counts;
  counts.Add(DType::kBFloat16, reinterpret_cast<const char*>(values.data()), 2);
  const std::vector<int64_t> more = {3};
  counts.Add(DType::kInt64, reinterpret_cast<const char*>(more.data()), 1);
  EXPECT_EQ(counts.ToHistogram().min(), -2);
  EXPECT_EQ(counts.ToHistogram().max(), 3);
  EXPECT_EQ(counts.ToHistogram().sum(), 1.5);
}

TEST(ValueCountsTest, WhatIsNoFiniteNumberIsLeftOut) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kMost = std::numeric_limits<float>::max();
  ValueCounts counts;
  Add({kInfinity, -kInfinity, std::nanf(""), kMost, -kMost}, counts);
  const pb::tensorboard::Histogram histogram = counts.ToHistogram();
  EXPECT_EQ(histogram.num(), 2);
  EXPECT_EQ(histogram.min(), -kMost);
  EXPECT_EQ(*histogram.bucket_limit().rbegin(), kMost);
}

TEST(ValueCountsTest, NonsenseOfAPeerIsLeftOut) {
  pb::VariableCounted counted;
  counted.add_buckets(std::numeric_limits<int32_t>::min());
  counted.add_buckets(1 << 20);
  ValueCounts counts;
  counts.Add(counted);  // fewer counts than buckets
  counted.add_counts(1);
  counted.add_counts(1);
  counts.Add(counted);
  EXPECT_EQ(counts.ToHistogram().num(), 0);
}

}  // namespace
}  // namespace oneflow
