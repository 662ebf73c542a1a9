#include "oneflow_core/nn/linear.h"

#include "test/oneflow_core/nn/module_test.h"
#include "test/support/names.h"

namespace oneflow::nn {
namespace {

using LinearTest = testing::ModuleTest;

TEST_F(LinearTest, MultipliesByAWeightThatIsStoredInByOutAndAddsABias) {
  const Tensor y = Linear(Input({DType::kFloat32, {2, 5, 4}}), "fc", {.width = 3});
  EXPECT_EQ(y.shape(), Shape({2, 5, 3}));
  ASSERT_OK_AND_ASSIGN(const Graph graph, builder_.Finish());
  EXPECT_THAT(testing::Ops(graph), ElementsAre("matmul", "bias_add"));
  EXPECT_THAT(testing::Parameters(graph),
              ElementsAre(Pair("fc/bias", "f32[3] zeros"), Pair("fc/weight", "f32[4,3] normal(0.02)")));
}

TEST_F(LinearTest, MayGoWithoutBias) {
  Linear(Input({DType::kFloat32, {2, 4}}), "fc", {.width = 3, .bias = false, .init = "uniform(0.5)"});
  ASSERT_OK_AND_ASSIGN(const Graph graph, builder_.Finish());
  EXPECT_THAT(testing::Parameters(graph), ElementsAre(Pair("fc/weight", "f32[4,3] uniform(0.5)")));
}

TEST_F(LinearTest, ColumnSplitDividesTheOutputsAndRowSplitTheInputs) {
  const Tensor hidden = Linear(Input({DType::kFloat32, {2, 4}}), "a", ColumnSplit(8, "ones"));
  Linear(hidden, "b", RowSplit(4, "ones"));
  ASSERT_OK_AND_ASSIGN(const Graph graph, builder_.Finish());
  EXPECT_THAT(testing::Parameters(graph),
              ElementsAre(Pair("a/bias", "f32[8] zeros tp:S(0)"), Pair("a/weight", "f32[4,8] ones tp:S(1)"),
                          Pair("b/bias", "f32[4] zeros tp:B"), Pair("b/weight", "f32[8,4] ones tp:S(0)")));
}

TEST_F(LinearTest, RefusesAScalarAndAnEmptyWidth) {
  GraphBuilder other(ops_, "other");
  EXPECT_FALSE(Linear(Input({DType::kFloat32, {}}), "fc", {.width = 3}).valid());
  EXPECT_THAT(builder_.status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'fc': from f32[] to width 3")));
  EXPECT_FALSE(Linear(other.Variable("x", {DType::kFloat32, {2, 4}}, "zeros"), "fc", {.width = 0}).valid());
  EXPECT_THAT(other.status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("from f32[2,4] to width 0")));
}

TEST_F(LinearTest, NodesRememberTheLineThatCalledTheModule) {
  const std::source_location here = std::source_location::current();
  Linear(Input({DType::kFloat32, {2, 4}}), "fc", {.width = 3}, here);
  ASSERT_OK_AND_ASSIGN(const Graph graph, builder_.Finish());
  const std::string line = absl::StrCat("nn/linear_test.cc:", here.line());
  for (const char* name : {"fc/weight", "fc/bias", "fc/matmul", "fc/bias_add"}) {
    const NodeId id = graph.FindNode(name);
    ASSERT_GE(id, 0) << name;
    EXPECT_EQ(graph.node(id).source, line) << name;
  }
}

TEST_F(LinearTest, OfAnInvalidTensorIsInvalid) {
  EXPECT_FALSE(Linear(Tensor(), "fc", {.width = 3}).valid());
  EXPECT_OK(builder_.status());
}

}  // namespace
}  // namespace oneflow::nn
