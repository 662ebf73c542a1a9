#include "actor/checkpoint/finite.h"

#include <cmath>
#include <limits>
#include <vector>

#include "actor/element.h"
#include "gmock/gmock.h"

namespace oneflow {
namespace {

class FiniteTest : public ::testing::TestWithParam<DType> {
 protected:
  std::vector<char> With(double odd, int64_t at) const {
    std::vector<char> data(kCount * SizeOf(GetParam()));
    for (int64_t i = 0; i < kCount; ++i) StoreElement(GetParam(), data.data(), i, i % 2 == 0 ? -1.5 : 2);
    StoreElement(GetParam(), data.data(), at, odd);
    return data;
  }
  static constexpr int64_t kCount = 67;
  static constexpr double kInf = std::numeric_limits<double>::infinity();
};

TEST_P(FiniteTest, OneElementAnywhereIsFound) {
  for (int64_t at = 0; at < kCount; ++at) {
    EXPECT_EQ(FinitenessOf(GetParam(), With(0, at).data(), kCount), Finiteness::kFinite);
    EXPECT_EQ(FinitenessOf(GetParam(), With(kInf, at).data(), kCount), Finiteness::kInfinite);
    EXPECT_EQ(FinitenessOf(GetParam(), With(-kInf, at).data(), kCount), Finiteness::kInfinite);
    for (const double nan : {std::nan(""), -std::nan("")}) {
      EXPECT_EQ(FinitenessOf(GetParam(), With(nan, at).data(), kCount), Finiteness::kNan);
      EXPECT_FALSE(SquaresAreFinite(GetParam(), With(nan, at).data(), kCount));
    }
    EXPECT_FALSE(SquaresAreFinite(GetParam(), With(-kInf, at).data(), kCount));
    EXPECT_TRUE(SquaresAreFinite(GetParam(), With(300, at).data(), kCount));
  }
  EXPECT_EQ(FinitenessOf(GetParam(), nullptr, 0), Finiteness::kFinite);
  EXPECT_TRUE(SquaresAreFinite(GetParam(), nullptr, 0));
}

INSTANTIATE_TEST_SUITE_P(Types, FiniteTest, ::testing::Values(DType::kFloat32, DType::kBFloat16, DType::kFloat16),
                         [](const auto& info) { return std::string(Name(info.param)); });

TEST(FiniteTest, LargeWeightsHaveNoSquares) {
  const float values[] = {1e19f, -1e30f};
  EXPECT_EQ(FinitenessOf(DType::kFloat32, reinterpret_cast<const char*>(values), 2), Finiteness::kFinite);
  EXPECT_TRUE(SquaresAreFinite(DType::kFloat32, reinterpret_cast<const char*>(values), 1));
  EXPECT_FALSE(SquaresAreFinite(DType::kFloat32, reinterpret_cast<const char*>(values), 2));
  const int64_t large = INT64_MAX;
  EXPECT_TRUE(SquaresAreFinite(DType::kInt64, reinterpret_cast<const char*>(&large), 1));
}

}  // namespace
}  // namespace oneflow
