#include "oneflow_core/models/classifier.h"

#include "oneflow_core/functional.h"
#include "oneflow_core/nn/linear.h"
#include "oneflow_core/ops/ops.h"
#include "test/oneflow_core/graph_queries.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

const ImageData kImages{"train-images", "train-labels", "test-images", "test-labels", 3, 4, 5};

Tensor LinearModel(const Tensor& images, bool) {
  return nn::Linear(Reshape(images, {images.shape()[0], -1}), "fc", {.width = 2});
}

TEST(ClassifierTest, TrainsOnTheLossAndEvaluatesLossAndAccuracy) {
  const OpRegistry ops = StandardOps();
  ASSERT_OK_AND_ASSIGN(const std::vector<Graph> program,
                       ClassifierProgram(OnImages(LinearModel, kImages), {.train = 8, .evaluate = 6}, ops));
  ASSERT_EQ(program.size(), 2u);
  EXPECT_EQ(program[0].name(), "train");
  EXPECT_TRUE(program[0].is_trained());
  EXPECT_THAT(testing::Fetches(program[0]), ElementsAre("loss"));
  EXPECT_EQ(program[1].name(), "evaluate");
  EXPECT_FALSE(program[1].is_trained());
  EXPECT_THAT(testing::Fetches(program[1]), ElementsAre("loss", "accuracy"));
}

TEST(ClassifierTest, ReadsTheFilesOfEachSplit) {
  const OpRegistry ops = StandardOps();
  ASSERT_OK_AND_ASSIGN(const std::vector<Graph> program,
                       ClassifierProgram(OnImages(LinearModel, kImages), {.train = 8, .evaluate = 6}, ops));
  const Node& train = program[0].node(program[0].FindNode("read_data"));
  EXPECT_EQ(train.attrs.String("images"), "train-images");
  EXPECT_EQ(train.attrs.String("labels"), "train-labels");
  EXPECT_EQ(train.attrs.String("split"), "train");
  EXPECT_EQ(program[0].value(train.outputs[0]).type.ToString(), "f32[8,3,4,5]");
  const Node& evaluate = program[1].node(program[1].FindNode("read_data"));
  EXPECT_EQ(evaluate.attrs.String("images"), "test-images");
  EXPECT_EQ(evaluate.attrs.String("labels"), "test-labels");
  EXPECT_EQ(evaluate.attrs.String("split"), "validation");
  EXPECT_EQ(program[1].value(evaluate.outputs[1]).type.ToString(), "i32[6]");
}

TEST(ClassifierTest, ASingleLogitIsThatOfTheSecondOfTwoClasses) {
  const OpRegistry ops = StandardOps();
  const auto one = [](const Tensor& images, bool) {
    return nn::Linear(Reshape(images, {images.shape()[0], -1}), "fc", {.width = 1});
  };
  ASSERT_OK_AND_ASSIGN(const std::vector<Graph> program,
                       ClassifierProgram(OnImages(one, kImages), {.train = 8, .evaluate = 6}, ops));
  EXPECT_GE(program[0].FindNode("softplus"), 0) << "of the binary cross entropy";
  const Node& correct = program[1].node(program[1].FindNode("top1_correct"));
  EXPECT_EQ(program[1].value(correct.inputs[0]).type.ToString(), "f32[6,2]");
}

TEST(ClassifierTest, PassesTheModelsErrorOn) {
  const OpRegistry ops = StandardOps();
  const auto wrong = [](const Tensor& images, bool) { return Relu(images); };
  EXPECT_THAT(ClassifierProgram(OnImages(wrong, kImages), {.train = 8}, ops),
              testing::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("softmax_cross_entropy")));
}

}  // namespace
}  // namespace oneflow
