#include "tools/study/calibration/operand_values.h"

#include <cmath>
#include <set>

#include "actor/element.h"
#include "gmock/gmock.h"

namespace oneflow {
namespace {

constexpr int64_t kCount = 10'001;

std::vector<double> Values(DType dtype, uint64_t seed, int64_t limit = 64) {
  const std::vector<uint8_t> bytes = OperandValues(dtype, kCount, seed, limit);
  EXPECT_EQ(bytes.size(), kCount * SizeOf(dtype));
  std::vector<double> values;
  for (int64_t i = 0; i < kCount; ++i) values.push_back(LoadElement(dtype, bytes.data(), i));
  return values;
}

// A denormal number, of which bytes at random have one in a hundred, makes a product many times slower.
TEST(OperandValuesTest, NoFloatingValueIsZeroOrDenormalOrNan) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    const std::vector<double> values = Values(dtype, 1);
    for (const double value : values) {
      ASSERT_GE(value, 0.25) << Name(dtype);
      ASSERT_LE(value, 1) << Name(dtype);
    }
    EXPECT_GT(std::set<double>(values.begin(), values.end()).size(), 90u) << Name(dtype);
  }
}

TEST(OperandValuesTest, WholeValuesStayBelowTheLimitAndReachAllOfIt) {
  for (const DType dtype : {DType::kInt32, DType::kInt64, DType::kUInt8}) {
    const std::vector<double> values = Values(dtype, 1, /*limit=*/10);
    EXPECT_EQ(std::set<double>(values.begin(), values.end()).size(), 10u) << Name(dtype);
    EXPECT_EQ(*std::max_element(values.begin(), values.end()), 9) << Name(dtype);
  }
  const std::vector<double> flags = Values(DType::kBool, 1);
  EXPECT_EQ(std::set<double>(flags.begin(), flags.end()), (std::set<double>{0, 1}));
}

TEST(OperandValuesTest, SeedsDifferAndOneSeedRepeats) {
  EXPECT_EQ(Values(DType::kFloat32, 1), Values(DType::kFloat32, 1));
  EXPECT_NE(Values(DType::kFloat32, 1), Values(DType::kFloat32, 2));
}

}  // namespace
}  // namespace oneflow
