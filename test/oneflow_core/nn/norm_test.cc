#include "oneflow_core/nn/norm.h"

#include "test/oneflow_core/nn/module_test.h"
#include "test/support/names.h"

namespace oneflow::nn {
namespace {

using NormTest = testing::ModuleTest;

TEST_F(NormTest, StartsAsAPlainNormalisationOfTheLastDimension) {
  const Tensor x = Input({DType::kFloat32, {2, 5, 4}});
  for (const Tensor& y : {LayerNorm(x, "layer", 1e-6), RmsNorm(x, "rms", 1e-6)}) EXPECT_EQ(y.shape(), x.shape());
  ASSERT_OK_AND_ASSIGN(const Graph graph, builder_.Finish());
  EXPECT_THAT(testing::Parameters(graph),
              ElementsAre(Pair("layer/bias", "f32[4] zeros"), Pair("layer/weight", "f32[4] ones"),
                          Pair("rms/weight", "f32[4] ones")));
  for (const char* node : {"layer/layer_norm", "rms/rms_norm"}) {
    EXPECT_EQ(graph.node(graph.FindNode(node)).attrs.Double("epsilon"), 1e-6) << node;
  }
}

TEST_F(NormTest, AnOffsetRmsNormStartsFromOnePlusZeros) {
  const Tensor x = Input({DType::kFloat32, {2, 5, 4}});
  const Tensor y = OffsetRmsNorm(x, "rms", 1e-6);
  EXPECT_EQ(y.shape(), x.shape());
  ASSERT_OK_AND_ASSIGN(const Graph graph, builder_.Finish());
  EXPECT_THAT(testing::Parameters(graph), ElementsAre(Pair("rms/weight", "f32[4] zeros")));
  const Node& norm = graph.node(graph.FindNode("rms/rms_norm"));
  const Node& factor = graph.node(graph.value(norm.inputs[1]).producer);
  EXPECT_EQ(factor.op, "add_scalar");
  EXPECT_EQ(factor.attrs.Double("alpha"), 1);
}

TEST_F(NormTest, OfGroupsHaveParametersForEachChannel) {
  const Tensor x = Input({DType::kFloat32, {2, 6, 4, 3}});
  for (const Tensor& y : {GroupNorm(x, "group", 3, 1e-6), InstanceNorm(x, "instance", 1e-6)}) {
    EXPECT_EQ(y.shape(), x.shape());
  }
  ASSERT_OK_AND_ASSIGN(const Graph graph, builder_.Finish());
  EXPECT_THAT(testing::Parameters(graph),
              ElementsAre(Pair("group/bias", "f32[6] zeros"), Pair("group/weight", "f32[6] ones"),
                          Pair("instance/bias", "f32[6] zeros"), Pair("instance/weight", "f32[6] ones")));
}

TEST_F(NormTest, OfGroupsRefuseChannelsThatTheyDoNotDivide) {
  EXPECT_FALSE(GroupNorm(Input({DType::kFloat32, {2, 6, 4}}), "norm", 4).valid());
  EXPECT_THAT(builder_.status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("4 groups of the channels")));
}

TEST_F(NormTest, ALayerNormRefusesAScalar) {
  EXPECT_FALSE(LayerNorm(Input({DType::kFloat32, {}}), "ln").valid());
  EXPECT_THAT(builder_.status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("layer norm 'ln': f32[]")));
}

TEST_F(NormTest, AnRmsNormRefusesAScalar) {
  EXPECT_FALSE(RmsNorm(Input({DType::kFloat32, {}}), "norm").valid());
  EXPECT_THAT(builder_.status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rms norm 'norm': f32[]")));
}

}  // namespace
}  // namespace oneflow::nn
