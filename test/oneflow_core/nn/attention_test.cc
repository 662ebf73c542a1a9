#include "oneflow_core/nn/attention.h"

#include "oneflow_core/functional.h"
#include "test/oneflow_core/nn/module_test.h"
#include "test/support/names.h"

namespace oneflow::nn {
namespace {

using AttentionTest = testing::ModuleTest;

TEST_F(AttentionTest, SplitsProjectionsByHeadsAndTheOutputByRows) {
  const Tensor y = SelfAttention(Input({DType::kFloat32, {2, 5, 8}}), "attn",
                                 {.heads = 2, .init = "normal(0.5)", .output_init = "normal(0.25)"});
  EXPECT_EQ(y.shape(), Shape({2, 5, 8}));
  ASSERT_OK_AND_ASSIGN(const Graph graph, builder_.Finish());
  const std::string column_bias = "f32[8] zeros tp:S(0)", column = "f32[8,8] normal(0.5) tp:S(1)";
  EXPECT_THAT(testing::Parameters(graph), ElementsAre(Pair("attn/k/bias", column_bias), Pair("attn/k/weight", column),
                                                      Pair("attn/o/bias", "f32[8] zeros tp:B"),
                                                      Pair("attn/o/weight", "f32[8,8] normal(0.25) tp:S(0)"),
                                                      Pair("attn/q/bias", column_bias), Pair("attn/q/weight", column),
                                                      Pair("attn/v/bias", column_bias), Pair("attn/v/weight", column)));
  const Node& mix = graph.node(graph.FindNode("attn/attention"));
  EXPECT_EQ(mix.attrs.Int("heads"), 2);
  EXPECT_TRUE(mix.attrs.Bool("causal"));
}

TEST_F(AttentionTest, GroupsNormsAndPositionsHaveTheirVariablesAndNodes) {
  const Tensor out = SelfAttention(Input({DType::kFloat32, {2, 5, 8}}), "attn",
                                   {.heads = 4,
                                    .kv_heads = 2,
                                    .head_width = 6,
                                    .window = 3,
                                    .qkv_bias = false,
                                    .output_bias = false,
                                    .qk_norm = 1e-6,
                                    .rotary = AttrMap{{"theta", 500.0}}});
  EXPECT_EQ(out.shape(), Shape({2, 5, 8}));
  ASSERT_OK_AND_ASSIGN(const Graph graph, builder_.Finish());
  EXPECT_THAT(
      testing::Parameters(graph),
      ElementsAre(Pair("attn/k/weight", "f32[8,12] normal(0.02) tp:S(1)"), Pair("attn/k_norm/weight", "f32[6] ones"),
                  Pair("attn/o/weight", "f32[24,8] normal(0.02) tp:S(0)"),
                  Pair("attn/q/weight", "f32[8,24] normal(0.02) tp:S(1)"), Pair("attn/q_norm/weight", "f32[6] ones"),
                  Pair("attn/v/weight", "f32[8,12] normal(0.02) tp:S(1)")));
  const Node& mix = graph.node(graph.FindNode("attn/attention"));
  EXPECT_EQ(mix.attrs.Int("kv_heads"), 2);
  EXPECT_EQ(mix.attrs.Int("window"), 3);
  EXPECT_EQ(graph.node(graph.FindNode("attn/rotary")).attrs.Double("theta"), 500);
}

TEST_F(AttentionTest, OfAnotherSequenceReadsItsKeysAndValues) {
  const Tensor x = Input({DType::kFloat32, {2, 5, 8}});
  const Tensor y = builder_.Variable("y", {DType::kFloat32, {2, 7, 6}}, "zeros", {}, /*trainable=*/false);
  const Tensor added = Constant(builder_, {DType::kFloat32, {1, 2, 5, 7}}, 0);
  const Tensor out = CrossAttention(
      x, y, "attn", {.heads = 2, .causal = false, .qkv_bias = false, .output_bias = false, .scale = 1, .added = added});
  EXPECT_EQ(out.shape(), Shape({2, 5, 8}));
  ASSERT_OK_AND_ASSIGN(const Graph graph, builder_.Finish());
  EXPECT_EQ(testing::Parameters(graph)["attn/k/weight"], "f32[6,8] normal(0.02) tp:S(1)");
  EXPECT_EQ(graph.FindNode("attn/attention"), -1) << "scores to which something is added are in memory";
  EXPECT_NE(graph.FindNode("attn/softmax"), -1);
}

TEST_F(AttentionTest, RefusesAnInputWithoutTime) {
  EXPECT_FALSE(SelfAttention(Input({DType::kFloat32, {5, 8}}), "attn", {.heads = 2}).valid());
  EXPECT_THAT(builder_.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("attention 'attn': the input must be [batch, time, width] but is f32[5,8]")));
}

TEST_F(AttentionTest, RefusesToKeepScoresOfGroupsAndWindows) {
  SelfAttention(Input({DType::kFloat32, {2, 5, 8}}), "attn",
                {.heads = 4, .kv_heads = 2, .kept_scores = DType::kFloat32});
  EXPECT_THAT(builder_.status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                          HasSubstr("attention 'attn': scores are kept only of causal heads")));
}

TEST_F(AttentionTest, RefusesHeadsThatDoNotDivideTheWidth) {
  SelfAttention(Input({DType::kFloat32, {2, 5, 8}}), "attn", {.heads = 3});
  EXPECT_THAT(builder_.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("attention 'attn': 3 heads do not divide the width of f32[2,5,8]")));
}

}  // namespace
}  // namespace oneflow::nn
