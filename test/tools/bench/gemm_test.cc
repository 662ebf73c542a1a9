#include "tools/bench/gemm.h"

#include "gmock/gmock.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

// A product of 2e9 flops.
GemmRow RowOf(double ours, double library, double packed, double pytorch) {
  return {.shape = {1000, 1000, 1000}, .ours = ours, .library = library, .packed = packed, .pytorch = pytorch};
}

TEST(GemmRowTest, ComparesWithTheFastestOfTheOthers) {
  EXPECT_THAT(RowOf(0.02, 0.03, 0.01, 0.04).ratio(), DoubleEq(0.5));
  EXPECT_THAT(RowOf(0.02, 0.03, 0, 0.04).ratio(), DoubleEq(1.5));
  EXPECT_EQ(RowOf(0.02, 0, 0, 0).ratio(), 0);
}

TEST(GemmTextTest, ShowsRatesAndSaysWhereOursAreSlowerByATenth) {
  const std::string text = GemmText({RowOf(0.02, 0.025, 0.0125, 0.04)}, 2, "PyTorch 9");
  EXPECT_THAT(text, ContainsRegex("on 2 cores, .*; PyTorch 9\n"));
  EXPECT_THAT(text, ContainsRegex("1000, 1000, 1000  f32 +100 +80 +160 +50 +0\\.62  slower\n"));
}

TEST(GemmTextTest, WhatNobodyMeasuredIsADash) {
  const std::string text = GemmText({RowOf(0.02, 0.019, 0, 0)}, 2, "");
  EXPECT_THAT(text, ContainsRegex("f32 +100 +105 +- +- +0\\.95\n"));
  EXPECT_THAT(text, Not(HasSubstr("slower")));
}

}  // namespace
}  // namespace oneflow
