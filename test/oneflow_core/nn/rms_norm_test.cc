#include "oneflow_core/nn/rms_norm.h"

#include "test/oneflow_core/nn/module_test.h"

namespace oneflow::nn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

using RmsNormTest = testing::ModuleTest;

TEST_F(RmsNormTest, StartsAsAPlainNormalisationOfTheLastDimension) {
  const Tensor y = RmsNorm(Input({DType::kFloat32, {2, 5, 4}}), "norm", 1e-6);
  EXPECT_EQ(y.shape(), Shape({2, 5, 4}));
  ASSERT_OK_AND_ASSIGN(const Graph graph, builder_.Finish());
  EXPECT_THAT(testing::Parameters(graph), ElementsAre(Pair("norm/weight", "f32[4] ones")));
  EXPECT_EQ(graph.node(graph.FindNode("norm/rms_norm")).attrs.Double("epsilon"), 1e-6);
}

TEST_F(RmsNormTest, RefusesAScalar) {
  EXPECT_FALSE(RmsNorm(Input({DType::kFloat32, {}}), "norm").valid());
  EXPECT_THAT(builder_.status(),
              testing::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rms norm 'norm': f32[]")));
}

}  // namespace
}  // namespace oneflow::nn
