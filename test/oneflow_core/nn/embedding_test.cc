#include "oneflow_core/nn/embedding.h"

#include "test/oneflow_core/nn/module_test.h"
#include "test/support/names.h"

namespace oneflow::nn {
namespace {

using EmbeddingTest = testing::ModuleTest;

TEST_F(EmbeddingTest, GivesARowOfTheTablePerIndex) {
  const Tensor y =
      Embedding(Input({DType::kInt32, {2, 5}}), "wte", {.rows = 7, .width = 4, .hint = {{"tp", Sbp::Split(0)}}});
  EXPECT_EQ(y.type().ToString(), "f32[2,5,4]");
  ASSERT_OK_AND_ASSIGN(const Graph graph, builder_.Finish());
  EXPECT_THAT(testing::Parameters(graph), ElementsAre(Pair("wte/weight", "f32[7,4] normal(0.02) tp:S(0)")));
}

TEST_F(EmbeddingTest, ItsTableIsOneVariableHoweverOftenItIsAskedFor) {
  const EmbeddingOptions options{.rows = 7, .width = 4};
  Embedding(Input({DType::kInt32, {2, 5}}), "wte", options);
  EXPECT_EQ(EmbeddingTable(builder_, "wte", options).id(), EmbeddingTable(builder_, "wte", options).id());
  ASSERT_OK_AND_ASSIGN(const Graph graph, builder_.Finish());
  EXPECT_EQ(testing::NumParameters(graph), 7 * 4);
}

}  // namespace
}  // namespace oneflow::nn
