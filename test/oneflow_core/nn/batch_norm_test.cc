#include "oneflow_core/nn/batch_norm.h"

#include "oneflow_core/variable_role.h"
#include "test/oneflow_core/nn/module_test.h"
#include "test/support/names.h"

namespace oneflow::nn {
namespace {

using BatchNormTest = testing::ModuleTest;

TEST_F(BatchNormTest, NormalisesByTheBatchAndMovesTheRunningStatisticsInTraining) {
  const Tensor y = BatchNorm(Input({DType::kFloat32, {2, 3, 5, 5}}), "bn", {.training = true, .epsilon = 1e-3});
  EXPECT_EQ(y.shape(), Shape({2, 3, 5, 5}));
  ASSERT_OK_AND_ASSIGN(const Graph graph, builder_.Finish());
  EXPECT_THAT(testing::Parameters(graph),
              ElementsAre(Pair("bn/bias", "f32[3] zeros"), Pair("bn/weight", "f32[3] ones")));
  EXPECT_THAT(testing::Ops(graph),
              ElementsAre("channel_mean", "channel_variance", "batch_norm", "ema_update", "scale", "ema_update"));
  const auto node = [&](const std::string& name) { return graph.node(graph.FindNode("bn/" + name)); };
  EXPECT_EQ(node("batch_norm").attrs.Double("epsilon"), 1e-3);
  EXPECT_DOUBLE_EQ(node("ema_update").attrs.Double("decay"), 0.9);
  EXPECT_DOUBLE_EQ(node("scale").attrs.Double("alpha"), 50.0 / 49);  // the unbiased variance of 50 elements
  EXPECT_EQ(node("running_var").attrs.String("init"), "ones");
  EXPECT_EQ(RoleOfVariable(node("running_var").attrs), VariableRole::kStatistic);
  EXPECT_EQ(RoleOfVariable(node("weight").attrs), VariableRole::kWeight);
}

TEST_F(BatchNormTest, NormalisesByTheRunningStatisticsOtherwise) {
  BatchNorm(Input({DType::kFloat32, {1, 3}}), "bn", {});
  ASSERT_OK_AND_ASSIGN(const Graph graph, builder_.Finish());
  EXPECT_THAT(testing::Ops(graph), ElementsAre("batch_norm"));
  const Node& norm = graph.node(graph.FindNode("bn/batch_norm"));
  EXPECT_FALSE(norm.attrs.Bool("training"));
  EXPECT_EQ(graph.node(graph.value(norm.inputs[3]).producer).name, "bn/running_mean");
  EXPECT_EQ(graph.node(graph.value(norm.inputs[4]).producer).name, "bn/running_var");
}

TEST_F(BatchNormTest, MayHaveNoScale) {
  BatchNorm(Input({DType::kFloat32, {4, 3}}), "bn", {.training = true, .scaled = false});
  ASSERT_OK_AND_ASSIGN(const Graph graph, builder_.Finish());
  EXPECT_THAT(testing::Parameters(graph), ElementsAre(Pair("bn/bias", "f32[3] zeros")));
  const Node& norm = graph.node(graph.FindNode("bn/batch_norm"));
  EXPECT_EQ(graph.node(graph.value(norm.inputs[1]).producer).attrs.Double("value"), 1);
}

TEST_F(BatchNormTest, RefusesWhatHasNoStatistics) {
  const struct {
    Shape shape;
    BatchNormOptions options;
    const char* message;
  } kCases[] = {
      {{4}, {}, "batch norm 'bn': f32[4] has no dimension 1, which counts channels"},
      {{1, 3, 1}, {.training = true}, "batch norm 'bn': f32[1,3,1] has fewer than two elements per channel"},
      {{2, 3}, {.momentum = 1.5}, "batch norm 'bn': momentum is 1.5 but must be in (0, 1]"},
  };
  for (const auto& c : kCases) {
    GraphBuilder builder(ops_, "module");
    const Tensor x = builder.Variable("x", {DType::kFloat32, c.shape}, "zeros", {}, false);
    EXPECT_FALSE(BatchNorm(x, "bn", c.options).valid());
    EXPECT_THAT(builder.status(), testing::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message)));
  }
}

}  // namespace
}  // namespace oneflow::nn
