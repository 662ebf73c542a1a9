#include "tools/bench/elementwise.h"

#include "gmock/gmock.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

const ElementwiseRow kRow = {
    .name = "a gate", .dtype = DType::kBFloat16, .operands = 4, .whole = 0.005, .apart = 0.01, .addition = 0.003};

TEST(ElementwiseRowTest, TheFloorIsOfAsManyTensorsAsThereAre) { EXPECT_THAT(kRow.floor(), DoubleEq(0.004)); }

TEST(ElementwiseTextTest, ShowsTimesAndWhatTheyAreOfOneAnother) {
  const std::string text = ElementwiseText({kRow}, 2);
  EXPECT_THAT(text, ContainsRegex("ms on 2 cores"));
  EXPECT_THAT(text, ContainsRegex("a gate +bf16 +5\\.00 +10\\.00 +4\\.00 +2\\.00 +1\\.25\n"));
}

}  // namespace
}  // namespace oneflow
