#include "oneflow_core/models/convnet.h"

#include "oneflow_core/verify.h"
#include "test/oneflow_core/graph_queries.h"
#include "test/support/standard_ops.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

const ImageData kPictures{"train-images", "train-labels", "test-images", "test-labels"};

TEST(ConvNetTest, HalvesTheImagePerConvolutionAndEndsInTwoLinearLayers) {
  ASSERT_OK_AND_ASSIGN(const std::vector<Graph> program,
                       ConvNetProgram({}, kPictures, {.train = 8, .evaluate = 4}, Ops()));
  ASSERT_EQ(program.size(), 2u);
  const Graph& train = program[0];
  EXPECT_OK(VerifyGraph(train, Ops()));
  EXPECT_OK(VerifyGraph(program[1], Ops()));
  EXPECT_EQ(testing::NumParameters(train),
            (16 * 25 + 16) + (32 * 16 * 25 + 32) + (32 * 7 * 7 * 128 + 128) + (128 * 10 + 10));
  EXPECT_EQ(testing::Parameters(train)["conv1/weight"].substr(0, 16), "f32[32,16,5,5] u");
  EXPECT_EQ(testing::Parameters(train), testing::Parameters(program[1]));
  EXPECT_THAT(testing::Ops(train),
              ElementsAre("read_data", "to", "to", "conv2d", "bias_add", "relu", "max_pool2d", "conv2d", "bias_add",
                          "relu", "max_pool2d", "reshape", "matmul", "bias_add", "relu", "matmul", "bias_add",
                          "softmax_cross_entropy", "reduce_mean", "fetch"));
}

TEST(ConvNetTest, DropsBeforeTheLastLayerOnlyInTraining) {
  ASSERT_OK_AND_ASSIGN(const std::vector<Graph> program,
                       ConvNetProgram({.dropout = 0.5}, kPictures, {.train = 8, .evaluate = 4}, Ops()));
  EXPECT_EQ(testing::CountOps(program[0], "dropout"), 1);
  EXPECT_EQ(testing::CountOps(program[1], "dropout"), 0);
}

TEST(ConvNetTest, RefusesImpossibleConfigsNamingTheField) {
  const auto program = [](const ConvNetConfig& config, const ImageData& data) {
    return ConvNetProgram(config, data, {.train = 8}, Ops());
  };
  ImageData tiny = kPictures;
  tiny.height = 3;
  EXPECT_THAT(program({}, tiny), StatusIs(absl::StatusCode::kInvalidArgument,
                                          StartsWith("convnet: images of 3x28 cannot be halved 2 times")));
  tiny.channels = 0;
  EXPECT_THAT(program({}, tiny),
              StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("convnet: the number of image channels is 0")));
  EXPECT_THAT(program({.channels = {4, 0}}, kPictures),
              StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("convnet: channels 1 is 0")));
  EXPECT_THAT(program({.hidden = 0}, kPictures),
              StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("convnet: hidden is 0")));
  EXPECT_THAT(program({.classes = -1}, kPictures),
              StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("convnet: the number of classes is -1")));
  EXPECT_THAT(program({.dropout = -0.1}, kPictures),
              StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("convnet: dropout is -0.1")));
}

}  // namespace
}  // namespace oneflow
