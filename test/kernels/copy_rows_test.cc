// Copies of ragged rows: those that are filled, from where they lie to where they lie, on either side packed or not;
// nothing else is read or written.
#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/copy.h"
#include "kernels/ragged.h"
#include "test/kernels/devices.h"

namespace oneflow::testing {
namespace {

using Dims = std::vector<int64_t>;

Dims StridesOf(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (size_t d = dims.size(); d-- > 1;) strides[d - 1] = strides[d] * dims[d];
  return strides;
}

int64_t CountOf(const Dims& dims) { return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>()); }

// A box of a shard of rows, and one of the same extent of another shard.
struct RowsCase {
  Dims shard, start, extent, other, other_start;
  int dim = 0;  // of the rows
  std::vector<int32_t> counts;
  int64_t first_row = 0;  // of the shard, among all

  static int64_t OffsetOf(const Dims& start, const Dims& dims) {
    const Dims strides = StridesOf(dims);
    return std::inner_product(start.begin(), start.end(), strides.begin(), int64_t{0});
  }
  RowBox rows() const {
    RowBox box;
    const Dims groups(shard.begin(), shard.begin() + dim);
    box.groups.assign(extent.begin(), extent.begin() + dim);
    box.count_stride = StridesOf(groups);
    for (int d = 0; d < dim; ++d) box.first_count += start[d] * box.count_stride[d];
    box.first_row = first_row + start[dim];
    box.rows = extent[dim];
    return box;
  }
};

RowsCase Drawn(std::mt19937_64& random) {
  RowsCase c;
  c.dim = static_cast<int>(random() % 3);
  const int rank = c.dim + 1 + static_cast<int>(random() % 3);
  for (int d = 0; d < rank; ++d) {
    const int64_t most = d == c.dim ? 12 : 6;
    c.shard.push_back(1 + random() % most);
    c.start.push_back(random() % c.shard[d]);
    c.extent.push_back(random() % 3 == 0 ? c.shard[d] - c.start[d] : 1 + random() % (c.shard[d] - c.start[d]));
    c.other.push_back(c.extent[d] + random() % 2);
    c.other_start.push_back(random() % (c.other[d] - c.extent[d] + 1));
  }
  c.first_row = random() % 2 == 0 ? 0 : 5;
  const int64_t groups = CountOf(Dims(c.shard.begin(), c.shard.begin() + c.dim));
  const bool alike = random() % 3 == 0;  // so that there are runs
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t drawn = static_cast<int64_t>(random() % (c.shard[c.dim] + 8)) - 2;
    c.counts.push_back(static_cast<int32_t>(alike && g > 0 ? c.counts[0] : drawn));
  }
  return c;
}

// Element by element, as the definition says.
template <typename T>
void NaiveRows(const RowsCase& c, const T* source, bool source_packed, T* target, bool target_packed, bool accumulate) {
  const Dims from = StridesOf(c.shard), to = StridesOf(c.other);
  const Dims counts = StridesOf(Dims(c.shard.begin(), c.shard.begin() + c.dim));
  int64_t packed = 0;
  for (int64_t i = 0; i < CountOf(c.extent); ++i) {
    int64_t rest = i, source_at = 0, target_at = 0, group = 0, row = 0;
    for (size_t d = c.extent.size(); d-- > 0;) {
      const int64_t at = rest % c.extent[d];
      rest /= c.extent[d];
      source_at += (c.start[d] + at) * from[d];
      target_at += (c.other_start[d] + at) * to[d];
      if (static_cast<int>(d) < c.dim) group += (c.start[d] + at) * counts[d];
      if (static_cast<int>(d) == c.dim) row = c.first_row + c.start[d] + at;
    }
    if (row >= c.counts[group]) continue;
    const T x = source[source_packed ? packed : source_at];
    T& y = target[target_packed ? packed : target_at];
    y = accumulate ? y + x : x;
    ++packed;
  }
}

class CopyRowsTest : public OnDeviceTest {
 protected:
  template <typename T>
  T* OnDevice(const std::vector<T>& values) {
    void* const memory = device_->Allocate(values.size() * sizeof(T));
    EXPECT_EQ(device_->CopyFromHost(memory, values.data(), values.size() * sizeof(T)), nullptr);
    return static_cast<T*>(memory);
  }

  // What a copy of the case makes of a target, as the device does it and by the definition.
  template <typename T>
  void ExpectRows(const RowsCase& c, DType dtype, bool source_packed, bool target_packed, bool accumulate) {
    const Dims from = StridesOf(c.shard), to = StridesOf(c.other);
    std::vector<T> source(source_packed ? CountOf(c.extent) : CountOf(c.shard));
    std::vector<T> want(target_packed ? CountOf(c.extent) : CountOf(c.other));
    for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<T>(i % 113);
    for (size_t i = 0; i < want.size(); ++i) want[i] = static_cast<T>(200 - i % 87);
    T* const given = OnDevice(source);
    T* const held = OnDevice(want);
    const RowBox rows = c.rows();
    const CopyRegionArgs box = {dtype,
                                c.extent,
                                given + (source_packed ? 0 : RowsCase::OffsetOf(c.start, c.shard)),
                                from,
                                held + (target_packed ? 0 : RowsCase::OffsetOf(c.other_start, c.other)),
                                to,
                                accumulate};
    ASSERT_EQ(device_->CopyRows({box, rows, OnDevice(c.counts), source_packed, target_packed}), nullptr);
    NaiveRows(c, source.data(), source_packed, want.data(), target_packed, accumulate);
    std::vector<T> got(want.size());
    ASSERT_EQ(device_->CopyToHost(got.data(), held, got.size() * sizeof(T)), nullptr);
    ASSERT_EQ(got, want);
  }
};

TEST_P(CopyRowsTest, AgreesWithTheDefinitionOnRandomBoxes) {
  constexpr uint64_t kSeed = 9;
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(::testing::Message() << "seed " << kSeed << " round " << round);
    const RowsCase c = Drawn(random);
    for (const auto& [source_packed, target_packed] :
         std::vector<std::pair<bool, bool>>{{false, false}, {true, false}, {false, true}}) {
      SCOPED_TRACE(::testing::Message() << "packed " << source_packed << " to " << target_packed);
      ExpectRows<int32_t>(c, DType::kInt32, source_packed, target_packed, round % 2 == 0);
      ExpectRows<uint8_t>(c, DType::kUInt8, source_packed, target_packed, false);
      ExpectRows<int64_t>(c, DType::kInt64, source_packed, target_packed, round % 3 == 0);
    }
  }
}

// Wide rows move in units of 16 bytes, and many groups are more than a device has blocks for.
TEST_P(CopyRowsTest, WideRowsAndManyGroups) {
  RowsCase wide = {.shard = {3, 7, 64}, .start = {0, 2, 0}, .extent = {3, 5, 64}, .other = {3, 5, 64}, .dim = 1};
  wide.other_start = {0, 0, 0};
  wide.counts = {7, 0, 4};
  RowsCase many = {.shard = {5000, 2, 1}, .start = {1, 0, 0}, .extent = {4998, 2, 1}, .other = {4998, 2, 1}, .dim = 1};
  many.other_start = {0, 0, 0};
  for (int g = 0; g < 5000; ++g) many.counts.push_back(g % 7 % 3);
  for (const RowsCase& c : {wide, many}) {
    ExpectRows<int32_t>(c, DType::kInt32, false, true, false);
    ExpectRows<int32_t>(c, DType::kInt32, true, false, false);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, CopyRowsTest,
                         ::testing::Values(DeviceUnderTest{"cpu", TwoCores}, DeviceUnderTest{"cuda", FirstGpu}),
                         NameOf);

TEST(CountRowsTest, AddsUpWhatTheCopyTakes) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 100; ++round) {
    const RowsCase c = Drawn(random);
    const std::vector<int32_t> ones(CountOf(c.shard), 1);
    std::vector<int32_t> packed(CountOf(c.extent), 0);
    NaiveRows(c, ones.data(), false, packed.data(), true, false);
    const int64_t row = CountOf(Dims(c.extent.begin() + c.dim + 1, c.extent.end()));
    EXPECT_EQ(CountRows(c.rows(), c.counts.data()) * row, std::accumulate(packed.begin(), packed.end(), int64_t{0}));
  }
}

}  // namespace
}  // namespace oneflow::testing
