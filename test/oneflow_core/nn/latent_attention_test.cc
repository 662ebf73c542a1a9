#include "oneflow_core/nn/latent_attention.h"

#include "oneflow_core/functional.h"
#include "test/oneflow_core/nn/module_test.h"
#include "test/support/names.h"

namespace oneflow::nn {
namespace {

using LatentAttentionTest = testing::ModuleTest;

const LatentAttentionOptions kHeads = {.heads = 2, .rank = 5, .plain_width = 6, .rotary_width = 4, .value_width = 7};

TEST_F(LatentAttentionTest, SplitsByHeadsWhatIsWideAndKeepsWhatIsNarrow) {
  LatentAttentionOptions options = kHeads;
  options.query_rank = 3;
  options.rotary = {{"interleaved", true}};
  EXPECT_EQ(LatentAttention(Input({DType::kFloat32, {2, 5, 8}}), "attn", options).shape(), Shape({2, 5, 8}));
  ASSERT_OK_AND_ASSIGN(const Graph graph, builder_.Finish());
  EXPECT_THAT(
      testing::Parameters(graph),
      ElementsAre(Pair("attn/kv_down/weight", "f32[8,9] normal(0.02)"), Pair("attn/kv_norm/weight", "f32[5] ones"),
                  Pair("attn/kv_up/weight", "f32[5,26] normal(0.02) tp:S(1)"),
                  Pair("attn/o/weight", "f32[14,8] normal(0.02) tp:S(0)"),
                  Pair("attn/q_down/weight", "f32[8,3] normal(0.02)"), Pair("attn/q_norm/weight", "f32[3] ones"),
                  Pair("attn/q_up/weight", "f32[3,20] normal(0.02) tp:S(1)")));
  const Node& mix = graph.node(graph.FindNode("attn/attention"));
  EXPECT_EQ(graph.value(mix.inputs[2]).type.ToString(), "f32[2,5,20]") << "values are as wide as keys";
  EXPECT_TRUE(mix.attrs.Bool("causal"));
  EXPECT_DOUBLE_EQ(mix.attrs.Double("scale"), 1 / std::sqrt(10.0)) << "of queries and keys";
}

TEST_F(LatentAttentionTest, QueriesNeedNotBeNarrowedAndValuesMayBeWiderThanKeys) {
  LatentAttentionOptions options = kHeads;
  options.value_width = 12;
  options.scale = 0.25;
  EXPECT_EQ(LatentAttention(Input({DType::kFloat32, {2, 5, 8}}), "attn", options).shape(), Shape({2, 5, 8}));
  ASSERT_OK_AND_ASSIGN(const Graph graph, builder_.Finish());
  EXPECT_EQ(testing::Parameters(graph)["attn/q/weight"], "f32[8,20] normal(0.02) tp:S(1)");
  EXPECT_EQ(testing::Parameters(graph)["attn/o/weight"], "f32[24,8] normal(0.02) tp:S(0)");
  const Node& mix = graph.node(graph.FindNode("attn/attention"));
  EXPECT_EQ(graph.value(mix.inputs[0]).type.ToString(), "f32[2,5,24]");
  EXPECT_EQ(mix.attrs.Double("scale"), 0.25);
}

TEST_F(LatentAttentionTest, RefusesAnInputWithoutTime) {
  EXPECT_FALSE(LatentAttention(Input({DType::kFloat32, {5, 8}}), "attn", kHeads).valid());
  EXPECT_THAT(builder_.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("latent attention 'attn': the input must be [batch, time, width] but is f32[5,8]")));
}

TEST_F(LatentAttentionTest, RefusesWidthsOfNothing) {
  LatentAttentionOptions options = kHeads;
  options.rotary_width = 0;
  LatentAttention(Input({DType::kFloat32, {2, 5, 8}}), "attn", options);
  EXPECT_THAT(builder_.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("latent attention 'attn': rotary_width is 0 but must be positive")));
}

}  // namespace
}  // namespace oneflow::nn
