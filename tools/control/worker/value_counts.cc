#include "tools/control/worker/value_counts.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <memory>

#include "actor/element.h"

namespace oneflow {
namespace {

constexpr int kLeftOut = 20;  // bits of an f32
constexpr uint32_t kInfinity = 0x7f800000;
constexpr int32_t kBuckets = kInfinity >> kLeftOut;  // above zero

// Where bucket n above zero begins; the last one ends with the greatest number.
double Edge(int32_t n) {
  return n == kBuckets ? std::numeric_limits<float>::max() : std::bit_cast<float>(static_cast<uint32_t>(n) << kLeftOut);
}
double BeginOf(int32_t bucket) { return bucket >= 0 ? Edge(bucket) : -Edge(-bucket); }
double EndOf(int32_t bucket) { return bucket >= 0 ? Edge(bucket + 1) : -Edge(-1 - bucket); }

// All buckets, so that nothing is asked of a value but its bits.
struct Tally {
  std::array<int64_t, 2 * kBuckets> counts{};  // above and below zero in turn
  double least = std::numeric_limits<double>::infinity(), greatest = -least, sum = 0, sum_of_squares = 0;

  void Count(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    if ((bits & kInfinity) == kInfinity) return;
    const uint32_t bucket = (bits & 0x7fffffff) >> kLeftOut;
    ++counts[2 * bucket + (bits >> 31)];
    const double x = value;
    least = std::min(least, x), greatest = std::max(greatest, x);
    sum += x, sum_of_squares += x * x;
  }
};

}  // namespace

void ValueCounts::Add(DType dtype, const char* data, int64_t count) {
  const auto tally = std::make_unique<Tally>();
  if (dtype == DType::kFloat32) {
    const float* const values = reinterpret_cast<const float*>(data);
    for (int64_t i = 0; i < count; ++i) tally->Count(values[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) tally->Count(static_cast<float>(LoadElement(dtype, data, i)));
  }
  pb::VariableCounted counted;
  for (size_t i = 0; i < tally->counts.size(); ++i) {
    if (tally->counts[i] == 0) continue;
    const auto bucket = static_cast<int32_t>(i / 2);
    counted.add_buckets(i % 2 == 0 ? bucket : -1 - bucket);
    counted.add_counts(tally->counts[i]);
  }
  counted.set_least(tally->least);
  counted.set_greatest(tally->greatest);
  counted.set_sum(tally->sum);
  counted.set_sum_of_squares(tally->sum_of_squares);
  Add(counted);
}

void ValueCounts::Add(const pb::VariableCounted& counted) {
  if (counted.buckets().empty() || counted.counts_size() != counted.buckets_size()) return;
  least_ = counts_.empty() ? counted.least() : std::min(least_, counted.least());
  greatest_ = counts_.empty() ? counted.greatest() : std::max(greatest_, counted.greatest());
  sum_ += counted.sum();
  sum_of_squares_ += counted.sum_of_squares();
  for (int i = 0; i < counted.buckets_size(); ++i) {
    const int32_t bucket = counted.buckets(i);
    if (bucket >= -kBuckets && bucket < kBuckets) counts_[bucket] += counted.counts(i);
  }
}

pb::VariableCounted ValueCounts::ToProto() const {
  pb::VariableCounted counted;
  for (const auto& [bucket, count] : counts_) {
    counted.add_buckets(bucket);
    counted.add_counts(count);
  }
  counted.set_least(least_);
  counted.set_greatest(greatest_);
  counted.set_sum(sum_);
  counted.set_sum_of_squares(sum_of_squares_);
  return counted;
}

// Between buckets that have values and do not touch lies an empty one, however many it stands for.
pb::tensorboard::Histogram ValueCounts::ToHistogram() const {
  pb::tensorboard::Histogram histogram;
  histogram.set_min(least_);
  histogram.set_max(greatest_);
  histogram.set_sum(sum_);
  histogram.set_sum_squares(sum_of_squares_);
  int64_t num = 0;
  double end = 0;
  for (const auto& [bucket, count] : counts_) {
    if (const double begin = BeginOf(bucket); num > 0 && begin > end) {
      histogram.add_bucket_limit(begin);
      histogram.add_bucket(0);
    }
    end = EndOf(bucket);
    histogram.add_bucket_limit(end);
    histogram.add_bucket(static_cast<double>(count));
    num += count;
  }
  histogram.set_num(static_cast<double>(num));
  return histogram;
}

}  // namespace oneflow
