#include "oneflow_core/nn/initial.h"

#include <cmath>

#include "absl/strings/numbers.h"
#include "gmock/gmock.h"

namespace oneflow::nn {
namespace {

TEST(InitialTest, IsWrittenAsVariablesWantIt) {
  EXPECT_EQ(Normal(0.02), "normal(0.02)");
  EXPECT_EQ(Uniform(0.5), "uniform(0.5)");
  EXPECT_EQ(List({}), "list()");
  EXPECT_EQ(List({1, -2, 3}), "list(1,-2,3)");
}

TEST(InitialTest, NumbersReadBackExactly) {
  const double value = 0.02 / std::sqrt(6.0);
  const std::string text = Normal(value);
  double read = 0;
  ASSERT_TRUE(absl::SimpleAtod(text.substr(7, text.size() - 8), &read)) << text;
  EXPECT_EQ(read, value);
}

TEST(InitialTest, BoundsFollowFromTheVarianceOfAUniformDistribution) {
  EXPECT_EQ(HeUniform(24), "uniform(0.5)");     // 0.5^2 / 3 = 2 / 24
  EXPECT_EQ(LecunUniform(12), "uniform(0.5)");  // 0.5^2 / 3 = 1 / 12
}

}  // namespace
}  // namespace oneflow::nn
