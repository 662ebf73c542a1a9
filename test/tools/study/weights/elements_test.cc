#include "tools/study/weights/elements.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "gmock/gmock.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

// Every number of 16 bits but NaNs, which need not keep which NaN they are.
TEST(ElementsTest, NarrowNumbersComeBackToTheBit) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    std::vector<uint16_t> bits(1 << 16), again(bits.size());
    for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
    std::vector<float> floats(bits.size());
    ASSERT_OK(ToFloats(dtype, bits.data(), floats.size(), floats.data()));
    ASSERT_OK(FromFloats(floats.data(), floats.size(), dtype, again.data()));
    for (size_t i = 0; i < bits.size(); ++i) {
      if (std::isnan(floats[i])) continue;
      ASSERT_EQ(again[i], bits[i]) << Name(dtype);
    }
  }
}

TEST(ElementsTest, ValuesOfEachType) {
  float floats[2];
  const uint16_t bf16[] = {0x3fc0, 0xc000}, f16[] = {0x3e00, 0xc000};
  ASSERT_OK(ToFloats(DType::kBFloat16, bf16, 2, floats));
  EXPECT_THAT(floats, ElementsAre(1.5f, -2.0f));
  ASSERT_OK(ToFloats(DType::kFloat16, f16, 2, floats));
  EXPECT_THAT(floats, ElementsAre(1.5f, -2.0f));
  const double f64[] = {0.1, -std::numeric_limits<double>::infinity()};
  ASSERT_OK(ToFloats(*StoredDType::Find("F64"), f64, 2, floats));
  EXPECT_THAT(floats, ElementsAre(0.1f, -INFINITY));
  uint16_t rounded[3];
  const float halfway[] = {1 + 1.0f / 256, 1 + 3.0f / 256, 1.0f / 3};
  ASSERT_OK(FromFloats(halfway, 3, DType::kBFloat16, rounded));
  EXPECT_THAT(rounded, ElementsAre(0x3f80, 0x3f82, 0x3eab)) << "to nearest even";
}

TEST(ElementsTest, ANumberThatIsTooLargeIsAnError) {
  const double large[] = {1, 1e39};
  float floats[2];
  EXPECT_THAT(
      ToFloats(*StoredDType::Find("F64"), large, 2, floats),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("element 1 is 1e+39, which is too large for f32")));
  uint16_t narrow[1];
  const float f16[] = {65520}, bf16[] = {3.4e38f}, most[] = {65519};
  EXPECT_THAT(
      FromFloats(f16, 1, DType::kFloat16, narrow),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("element 0 is 65520, which is too large for f16")));
  EXPECT_THAT(FromFloats(bf16, 1, DType::kBFloat16, narrow),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("too large for bf16")));
  EXPECT_OK(FromFloats(most, 1, DType::kFloat16, narrow));
}

}  // namespace
}  // namespace oneflow
