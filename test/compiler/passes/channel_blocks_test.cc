// channel-blocks: which values lie in blocks, and where they are reordered.
#include "test/compiler/passes/testing.h"
#include "test/support/names.h"

namespace oneflow::testing {
namespace {

Tensor Convolved(GraphBuilder& b, const Tensor& x, const std::string& name, int64_t channels, SbpHint hint = {}) {
  return Conv2d(x, Weight(b, name, {channels, x.shape()[1], 3, 3}, std::move(hint)), /*stride=*/1, /*padding=*/1);
}

Tensor Image(GraphBuilder& b, int64_t channels) {
  return Reshape(ReadSamples(b, 8 * channels).rows, {8, channels, 4, 4});
}

// image of one channel -> conv a -> relu -> conv b -> relu -> mean over pixels -> mean.
Graph TwoConvolutions(int64_t middle = 32, int64_t last = 48, SbpHint a = {}, SbpHint b_hint = {}) {
  GraphBuilder b(Ops(), "convolutions");
  Tensor x = Relu(Convolved(b, Image(b, 1), "a", middle, std::move(a)));
  x = Relu(Convolved(b, x, "b", last, std::move(b_hint)));
  b.SetLoss(ReduceMean(ReduceMean(x, {2, 3})));
  return *b.Finish();
}

absl::StatusOr<Graph> Blocked(Graph graph, const CompileOptions& options) {
  OF_ASSIGN_OR_RETURN(graph, RunUpTo("channel-blocks", std::move(graph), options));
  OF_RETURN_IF_ERROR(VerifyBoxedGraph(graph, Ops(), options));
  return graph;
}

// The names of nodes whose first output lies in blocks.
std::vector<std::string> InBlocks(const Graph& graph) {
  std::vector<std::string> names;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    const bool blocks = !node.outputs.empty() && graph.value(node.outputs[0]).layout == MemoryLayout::kChannelBlocks;
    if (blocks) names.push_back(node.name);
  }
  return names;
}

// Every node of the model and of its gradient between the image and the mean, without a single reordering: the image
// has one channel, numbers per channel lie one way, kernels are row-major.
TEST(ChannelBlocksTest, WhatLiesBetweenConvolutionsLiesInBlocks) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, Blocked(TwoConvolutions(), Options({})));
  EXPECT_THAT(NamesOf(graph, "reorder"), IsEmpty());
  for (const char* op : {"conv2d", "relu", "relu_grad", "conv2d_dgrad"}) {
    for (const std::string& name : NamesOf(graph, op)) EXPECT_THAT(InBlocks(graph), Contains(name));
  }
  for (const char* op : {"reshape", "conv2d_wgrad", "variable", "reduce_mean"}) {
    for (const std::string& name : NamesOf(graph, op)) EXPECT_THAT(InBlocks(graph), Not(Contains(name)));
  }
}

TEST(ChannelBlocksTest, OnlyOnCpus) {
  CompileOptions options = Options({});
  options.device = DeviceKind::kCuda;
  ASSERT_OK_AND_ASSIGN(const Graph graph, Blocked(TwoConvolutions(), options));
  EXPECT_THAT(InBlocks(graph), IsEmpty());
}

TEST(ChannelBlocksTest, ChannelsThatAreNoWholeBlocksStayAsTheyAre) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, Blocked(TwoConvolutions(24, 20), Options({})));
  EXPECT_THAT(InBlocks(graph), IsEmpty());
  EXPECT_THAT(NamesOf(graph, "reorder"), IsEmpty());
}

TEST(ChannelBlocksTest, ShardsDecideWhatIsAWholeBlock) {
  const SbpHint outputs = {{"tp", Sbp::Split(0)}}, inputs = {{"tp", Sbp::Split(1)}};
  ASSERT_OK_AND_ASSIGN(const Graph whole, Blocked(TwoConvolutions(32, 48, outputs, inputs), Options({{"tp", 2}})));
  EXPECT_THAT(InBlocks(whole), Contains("relu"));
  ASSERT_OK_AND_ASSIGN(const Graph half, Blocked(TwoConvolutions(48, 48, outputs, inputs), Options({{"tp", 2}})));
  EXPECT_EQ(SbpOf(half, "relu"), "(S(1))");
  EXPECT_THAT(InBlocks(half), Not(Contains("relu"))) << "24 channels on a rank are a block and a half";
}

// Flat rows of what a convolution reads too, twice: their gradients come as rows.
TEST(ChannelBlocksTest, BordersAreReorderedOnceForAllReaders) {
  GraphBuilder b(Ops(), "flat");
  const Tensor x = Relu(Convolved(b, Relu(Convolved(b, Image(b, 1), "a", 32)), "b", 32));
  const Tensor y = Relu(Convolved(b, x, "c", 32));
  const auto product = [&](const char* name) {
    return ReduceMean(MatMul(Reshape(x, {8, 512}), Weight(b, name, {512, 4})));
  };
  b.SetLoss(product("v") + product("u") + ReduceMean(ReduceMean(y, {2, 3})));
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  ASSERT_OK_AND_ASSIGN(graph, Blocked(std::move(graph), Options({})));
  std::vector<std::string> from;
  for (const std::string& name : NamesOf(graph, "reorder")) {
    const Node& reorder = NodeOf(graph, name);
    from.push_back(ProducerOf(graph, reorder, 0).op);
    const bool into_blocks = graph.value(reorder.outputs[0]).layout == MemoryLayout::kChannelBlocks;
    EXPECT_EQ(IsForward(reorder), !into_blocks) << name;
    EXPECT_NE(graph.value(reorder.inputs[0]).layout, graph.value(reorder.outputs[0]).layout);
  }
  EXPECT_THAT(from, UnorderedElementsAre("relu", "reshape", "reshape"));
  EXPECT_THAT(NamesOf(graph, "reorder"), Contains("relu_2/rows"));
}

// A convolution reorders what it alone reads itself.
TEST(ChannelBlocksTest, OneConvolutionOfRowsIsNotWorthIt) {
  GraphBuilder b(Ops(), "one");
  Fetch(ReduceMean(Reshape(Convolved(b, Image(b, 16), "a", 16), {8, 256})), "mean");
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  ASSERT_OK_AND_ASSIGN(graph, Blocked(std::move(graph), Options({})));
  EXPECT_THAT(InBlocks(graph), IsEmpty());
  EXPECT_THAT(NamesOf(graph, "reorder"), IsEmpty());
}

TEST(ChannelBlocksTest, BoxingsFindRows) {
  GraphBuilder b(Ops(), "moved");
  const Tensor x = Relu(Convolved(b, Image(b, 1), "a", 32));
  const Tensor everywhere = x.To({{"dp", Sbp::Broadcast()}});
  const Tensor y = Convolved(b, everywhere, "b", 32) + Convolved(b, everywhere, "c", 32);
  b.SetLoss(ReduceMean(ReduceMean(y, {2, 3})));
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  ASSERT_OK_AND_ASSIGN(graph, Blocked(std::move(graph), Options({{"dp", 2}})));
  for (const std::string& name : NamesOf(graph, "boxing")) {
    const Node& boxing = NodeOf(graph, name);
    EXPECT_EQ(graph.value(boxing.inputs[0]).layout, MemoryLayout::kRowMajor);
    EXPECT_EQ(graph.value(boxing.outputs[0]).layout, MemoryLayout::kRowMajor);
  }
  EXPECT_THAT(InBlocks(graph), Not(IsEmpty()));
}

TEST(ChannelBlocksTest, MixedPrecisionCastsBlocks) {
  CompileOptions options = Options({});
  options.precision.compute = DType::kBFloat16;
  ASSERT_OK_AND_ASSIGN(const Graph graph, Blocked(TwoConvolutions(), options));
  EXPECT_THAT(NamesOf(graph, "reorder"), IsEmpty());
  EXPECT_THAT(InBlocks(graph), Contains("relu"));
}

}  // namespace
}  // namespace oneflow::testing
