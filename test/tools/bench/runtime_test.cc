#include "tools/bench/runtime.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

TEST(RuntimeBenchTest, MeasuresThisMachine) {
  ASSERT_OK_AND_ASSIGN(const RuntimeFigures figures, MeasureRuntime(/*steps=*/50));
  EXPECT_GT(figures.kernel_ns, 1);
  EXPECT_GT(figures.act_ns, 1);
  EXPECT_GT(figures.hand_over_ns, 20);
  EXPECT_LT(figures.hand_over_ns, 1e6);
  EXPECT_GT(figures.hop_ns, 20);
  EXPECT_GT(figures.far_hop_ns, 1000);
}

TEST(RuntimeBenchTest, ShowsMediansBesideBars) {
  const std::vector<RuntimeFigures> rounds = {{.act_ns = 100, .hand_over_ns = 3000, .eager_op_ns = 750},
                                              {.act_ns = 300, .hand_over_ns = 4000, .eager_op_ns = 850},
                                              {.act_ns = 200, .hand_over_ns = 9000, .eager_op_ns = 800}};
  const std::string text = RuntimeText(rounds, "PyTorch 1");
  EXPECT_THAT(text, ContainsRegex("act beyond its kernel.* 200 \\(100\\.\\.300\\) +1000 held\n"));
  EXPECT_THAT(text, ContainsRegex("hand-over.* 4000 \\(3000\\.\\.9000\\) +2000 missed\n"));
  EXPECT_THAT(text, ContainsRegex("PyTorch 1: eager add of 16 elements +800 \\(750\\.\\.850\\)\n"));
}

TEST(RuntimeBenchTest, SaysWhyThereIsNoComparison) {
  EXPECT_THAT(RuntimeText({{}}, "'python9' has no PyTorch"), HasSubstr("'python9' has no PyTorch: no comparison\n"));
  EXPECT_THAT(RuntimeText({{}}, ""), Not(HasSubstr("comparison")));
}

}  // namespace
}  // namespace oneflow
