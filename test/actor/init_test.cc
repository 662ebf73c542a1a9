#include "actor/init.h"

#include <cmath>

#include "actor/element.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

// Of one element, in f32.
double InitialValue(const Init& init, uint64_t key, int64_t index) {
  float value = 0;
  FillInitial(init, key, index, 1, DType::kFloat32, &value, 0);
  return value;
}

TEST(InitTest, ReadsEveryKind) {
  const uint64_t key = InitKey(1, "w");
  const struct {
    const char* text;
    double third;
  } cases[] = {{"zeros", 0}, {"ones", 1}, {"constant(-2.5)", -2.5}, {"list(1, 2,3,4)", 3}, {"uniform(0)", 0}};
  for (const auto& c : cases) {
    ASSERT_OK_AND_ASSIGN(const Init init, ParseInit(c.text, 4));
    EXPECT_EQ(InitialValue(init, key, 2), c.third) << c.text;
  }
}

TEST(InitTest, RefusesMalformedText) {
  const BadText cases[] = {
      {"", "it may be zeros"},        {"normal", "it may be zeros"},      {"normal(0.1", "it may be zeros"},
      {"normal()", "no finite"},      {"normal(x)", "'x' is no finite"},  {"constant(inf)", "'inf' is no finite"},
      {"constant(nan)", "no finite"}, {"gamma(1)", "'gamma' is no kind"}, {"list(1,2)", "2 values for 4 elements"},
      {"list(1,a,3,4)", "'a' is no"}, {"list()", "0 values for 4"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(ParseInit(c.text, 4), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message))) << c.text;
  }
}

TEST(InitTest, NormalValuesHaveTheirMomentsAndDifferByVariableAndSeed) {
  ASSERT_OK_AND_ASSIGN(const Init init, ParseInit("normal(0.5)", 1));
  constexpr int kCount = 200000;
  double sum = 0, squares = 0, products = 0;
  const uint64_t key = InitKey(3, "a"), other = InitKey(3, "b");
  for (int i = 0; i < kCount; ++i) {
    const double x = InitialValue(init, key, i);
    sum += x;
    squares += x * x;
    products += x * InitialValue(init, other, i);
  }
  EXPECT_NEAR(sum / kCount, 0, 0.005);  // 4 standard errors
  EXPECT_NEAR(squares / kCount, 0.25, 0.005);
  EXPECT_NEAR(products / kCount, 0, 0.005);
  EXPECT_NE(InitKey(3, "a"), InitKey(4, "a"));
}

TEST(InitTest, UniformValuesFillTheirInterval) {
  ASSERT_OK_AND_ASSIGN(const Init init, ParseInit("uniform(2)", 1));
  double low = 0, high = 0, sum = 0;
  for (int i = 0; i < 100000; ++i) {
    const double x = InitialValue(init, InitKey(1, "u"), i);
    low = std::min(low, x);
    high = std::max(high, x);
    sum += x;
  }
  EXPECT_GE(low, -2);
  EXPECT_LT(low, -1.99);
  EXPECT_LT(high, 2);
  EXPECT_GT(high, 1.99);
  EXPECT_NEAR(sum / 100000, 0, 0.02);
}

TEST(ElementTest, StoresWhatItLoads) {
  for (int d = 0; d < kNumDTypes; ++d) {
    const DType dtype = static_cast<DType>(d);
    alignas(8) char memory[32] = {};
    StoreElement(dtype, memory, 2, 1);
    EXPECT_EQ(LoadElement(dtype, memory, 2), 1) << Name(dtype);
    EXPECT_EQ(LoadElement(dtype, memory, 1), 0) << Name(dtype);
  }
  uint16_t half = 0;
  StoreElement(DType::kBFloat16, &half, 0, 1.00390625);  // half-way between two: to the even one
  EXPECT_EQ(half, 0x3F80);
  StoreElement(DType::kBFloat16, &half, 0, std::nan(""));
  EXPECT_TRUE(std::isnan(LoadElement(DType::kBFloat16, &half, 0)));
}

}  // namespace
}  // namespace oneflow
