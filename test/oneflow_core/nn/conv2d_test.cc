#include "oneflow_core/nn/conv2d.h"

#include "test/oneflow_core/nn/module_test.h"
#include "test/support/names.h"

namespace oneflow::nn {
namespace {

using Conv2dTest = testing::ModuleTest;

TEST_F(Conv2dTest, StartsByTheFanInOfItsKernelAndAddsABiasPerChannel) {
  const Tensor y =
      Conv2d(Input({DType::kFloat32, {2, 6, 8, 9}}), "conv", {.channels = 5, .kernel = 2, .stride = 1, .padding = 1});
  EXPECT_EQ(y.shape(), Shape({2, 5, 9, 10}));
  ASSERT_OK_AND_ASSIGN(const Graph graph, builder_.Finish());
  EXPECT_THAT(testing::Ops(graph), ElementsAre("conv2d", "bias_add"));
  EXPECT_EQ(graph.node(graph.FindNode("conv/bias_add")).attrs.Int("axis"), 1);
  EXPECT_THAT(testing::Parameters(graph),
              ElementsAre(Pair("conv/bias", "f32[5] zeros"), Pair("conv/weight", "f32[5,6,2,2] uniform(0.5)")));
}

TEST_F(Conv2dTest, MayGoWithoutBiasAndStartAsTold) {
  Conv2d(Input({DType::kFloat32, {2, 3, 8, 8}}), "conv",
         {.channels = 5, .kernel = 3, .stride = 2, .bias = false, .init = "ones"});
  ASSERT_OK_AND_ASSIGN(const Graph graph, builder_.Finish());
  EXPECT_THAT(testing::Parameters(graph), ElementsAre(Pair("conv/weight", "f32[5,3,3,3] ones")));
}

TEST_F(Conv2dTest, OfGroupsTheWeightHasTheChannelsOfOne) {
  const Tensor x = Input({DType::kFloat32, {2, 6, 8, 9}});
  const Tensor y = Conv2d(x, "conv", {.channels = 4, .kernel = 2, .dilation = 3, .groups = 2, .bias = false});
  EXPECT_EQ(y.shape(), Shape({2, 4, 5, 6}));
  ASSERT_OK_AND_ASSIGN(const Graph graph, builder_.Finish());
  EXPECT_THAT(testing::Parameters(graph),
              ElementsAre(Pair("conv/weight", HasSubstr("f32[4,3,2,2] uniform(0.7071067"))));
}

TEST_F(Conv2dTest, ATransposeIsAsMuchLargerAsAConvolutionIsSmaller) {
  const Tensor x = Input({DType::kFloat32, {2, 6, 4, 5}});
  const Tensor y = ConvTranspose2d(x, "up", {.channels = 3, .kernel = 4, .stride = 2, .padding = 1}, 1);
  EXPECT_EQ(y.shape(), Shape({2, 3, 9, 11}));
  ASSERT_OK_AND_ASSIGN(const Graph graph, builder_.Finish());
  EXPECT_THAT(testing::Ops(graph), ElementsAre("conv2d_dgrad", "bias_add"));
  EXPECT_THAT(testing::Parameters(graph),
              ElementsAre(Pair("up/bias", "f32[3] zeros"), Pair("up/weight", HasSubstr("f32[6,3,4,4]"))));
}

TEST_F(Conv2dTest, RefusesGroupsThatDoNotDivideTheChannels) {
  EXPECT_FALSE(Conv2d(Input({DType::kFloat32, {2, 6, 8, 8}}), "conv", {.channels = 5, .groups = 2}).valid());
  EXPECT_THAT(builder_.status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("5 channels in 2 groups")));
}

TEST_F(Conv2dTest, RefusesWhatIsNoImage) {
  EXPECT_FALSE(Conv2d(Input({DType::kFloat32, {2, 8, 8}}), "conv", {.channels = 5}).valid());
  EXPECT_THAT(builder_.status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("conv2d 'conv': from f32[2,8,8] to 5 channels")));
}

}  // namespace
}  // namespace oneflow::nn
