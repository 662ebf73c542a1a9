#include "oneflow_core/nn/mlp.h"

#include "test/oneflow_core/nn/module_test.h"
#include "test/support/names.h"

namespace oneflow::nn {
namespace {

using MlpTest = testing::ModuleTest;

TEST_F(MlpTest, GoesUpThroughGeluAndDownToTheWidthOfItsInput) {
  const Tensor y = Mlp(Input({DType::kFloat32, {2, 5, 4}}), "mlp", {.hidden = 16, .output_init = "normal(0.01)"});
  EXPECT_EQ(y.shape(), Shape({2, 5, 4}));
  ASSERT_OK_AND_ASSIGN(const Graph graph, builder_.Finish());
  EXPECT_THAT(testing::Ops(graph), ElementsAre("matmul", "bias_add", "gelu", "matmul", "bias_add"));
  EXPECT_THAT(testing::Parameters(graph), ElementsAre(Pair("mlp/down/bias", "f32[4] zeros tp:B"),
                                                      Pair("mlp/down/weight", "f32[16,4] normal(0.01) tp:S(0)"),
                                                      Pair("mlp/up/bias", "f32[16] zeros tp:S(0)"),
                                                      Pair("mlp/up/weight", "f32[4,16] normal(0.02) tp:S(1)")));
}

TEST_F(MlpTest, RefusesNoHiddenWidth) {
  EXPECT_FALSE(Mlp(Input({DType::kFloat32, {2, 4}}), "mlp", {}).valid());
  EXPECT_THAT(builder_.status(), testing::StatusIs(absl::StatusCode::kInvalidArgument,
                                                   HasSubstr("linear 'up': from f32[2,4] to width 0")));
}

}  // namespace
}  // namespace oneflow::nn
