#include "oneflow_core/nn/layer_norm.h"

#include "test/oneflow_core/nn/module_test.h"

namespace oneflow::nn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

using LayerNormTest = testing::ModuleTest;

TEST_F(LayerNormTest, StartsAsAPlainNormalisationOfTheLastDimension) {
  const Tensor y = LayerNorm(Input({DType::kFloat32, {2, 5, 4}}), "ln", 1e-6);
  EXPECT_EQ(y.shape(), Shape({2, 5, 4}));
  ASSERT_OK_AND_ASSIGN(const Graph graph, builder_.Finish());
  EXPECT_THAT(testing::Parameters(graph),
              ElementsAre(Pair("ln/bias", "f32[4] zeros"), Pair("ln/weight", "f32[4] ones")));
  EXPECT_EQ(graph.node(graph.FindNode("ln/layer_norm")).attrs.Double("epsilon"), 1e-6);
}

TEST_F(LayerNormTest, RefusesAScalar) {
  EXPECT_FALSE(LayerNorm(Input({DType::kFloat32, {}}), "ln").valid());
  EXPECT_THAT(builder_.status(),
              testing::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("layer norm 'ln': f32[]")));
}

}  // namespace
}  // namespace oneflow::nn
