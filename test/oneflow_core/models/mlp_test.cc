#include "oneflow_core/models/mlp.h"

#include "oneflow_core/verify.h"
#include "test/oneflow_core/graph_queries.h"
#include "test/support/standard_ops.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

const ImageData kDigits{"train-images", "train-labels", "test-images", "test-labels"};

TEST(MlpModelTest, IsALayerPerWidthAndAHead) {
  ASSERT_OK_AND_ASSIGN(const std::vector<Graph> program,
                       MlpProgram({.widths = {32, 16}}, kDigits, {.train = 8}, Ops()));
  ASSERT_EQ(program.size(), 1u);
  const Graph& train = program[0];
  EXPECT_OK(VerifyGraph(train, Ops()));
  EXPECT_EQ(testing::NumParameters(train), (784 * 32 + 32) + (32 * 16 + 16) + (16 * 10 + 10));
  EXPECT_THAT(testing::Ops(train),
              ElementsAre("read_data", "to", "to", "reshape", "matmul", "bias_add", "relu", "matmul", "bias_add",
                          "relu", "matmul", "bias_add", "softmax_cross_entropy", "reduce_mean", "fetch"));
}

TEST(MlpModelTest, WithoutHiddenLayersIsALinearClassifier) {
  ASSERT_OK_AND_ASSIGN(const std::vector<Graph> program,
                       MlpProgram({.widths = {}, .classes = 3}, kDigits, {.train = 8}, Ops()));
  EXPECT_EQ(testing::NumParameters(program[0]), 784 * 3 + 3);
}

TEST(MlpModelTest, RefusesImpossibleConfigsNamingTheField) {
  EXPECT_THAT(MlpProgram({.widths = {4, 0}}, kDigits, {.train = 8}, Ops()),
              StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("mlp: width 1 is 0, but must be from 1 to")));
  EXPECT_THAT(MlpProgram({.classes = 0}, kDigits, {.train = 8}, Ops()),
              StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("mlp: the number of classes is 0")));
  EXPECT_THAT(MlpProgram({}, kDigits, {.train = 8, .evaluate = -1}, Ops()),
              StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("mlp: the evaluation batch is -1")));
}

}  // namespace
}  // namespace oneflow
