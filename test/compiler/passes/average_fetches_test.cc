#include "test/compiler/passes/testing.h"
#include "test/support/names.h"

namespace oneflow::testing {
namespace {

TEST(AverageFetchesTest, FetchesTheMeanOverMicroBatches) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("average-fetches", Mlp(), Options({}, 4)));
  const Node& mean = ProducerOf(graph, NodeOf(graph, "fetch"), 0);
  EXPECT_EQ(mean.op, "scale");
  EXPECT_EQ(mean.attrs.Double("alpha"), 0.25);
  const Node& sum = ProducerOf(graph, mean, 0);
  EXPECT_EQ(sum.op, "accumulate");
  EXPECT_EQ(ProducerOf(graph, sum, 0).name, "reduce_mean");
}

TEST(AverageFetchesTest, DoesNothingForOneMicroBatch) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("average-fetches", Mlp(), Options({})));
  EXPECT_EQ(ProducerOf(graph, NodeOf(graph, "fetch"), 0).name, "reduce_mean");
}

TEST(AverageFetchesTest, LeavesValuesThatAreTheSameInEveryMicroBatchAlone) {
  GraphBuilder b(Ops(), "g");
  const Tensor w = Weight(b, "w", {16, 4});
  b.SetLoss(ReduceMean(MatMul(ReadSamples(b, 4).rows, w)));
  Fetch(ReduceSum(w), "sum");
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  ASSERT_OK_AND_ASSIGN(graph, RunUpTo("average-fetches", std::move(graph), Options({}, 4)));
  EXPECT_EQ(ProducerOf(graph, NodeOf(graph, "fetch"), 0).name, "reduce_sum");
}

TEST(AverageFetchesTest, RunningAveragesTakeTheMeanOnceAStep) {
  GraphBuilder b(Ops(), "g");
  const Tensor hidden = MatMul(ReadSamples(b, 4).rows, Weight(b, "w", {16, 4}));
  EmaUpdate(b.Variable("v", {DType::kFloat32, {4}}, "zeros", {}, /*trainable=*/false), ReduceMean(hidden, {0}), 0.9);
  b.SetLoss(ReduceMean(hidden));
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  ASSERT_OK_AND_ASSIGN(graph, RunUpTo("assign-rates", std::move(graph), Options({}, 4)));
  const Node& update = NodeOf(graph, "ema_update");
  EXPECT_EQ(update.rate, Rate::kStep);
  const Node& mean = ProducerOf(graph, update, 1);
  EXPECT_EQ(mean.op, "scale");
  EXPECT_EQ(mean.attrs.Double("alpha"), 0.25);
  EXPECT_EQ(ProducerOf(graph, ProducerOf(graph, mean, 0), 0).name, "reduce_mean");
}

// A graph that is not trained gives the host the weight of a mean beside it, and of other values nothing.
TEST(AverageFetchesTest, MeansOfBatchesComeWithTheirWeights) {
  GraphBuilder b(Ops(), "g");
  const Tensor rows = ReadSamples(b, 4).rows;
  const Tensor mean = StepMean(ReduceSum(rows), ReduceSum(Square(rows)));
  Fetch(mean, "mean");
  Fetch(ReduceMean(rows), "other");
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  ASSERT_OK_AND_ASSIGN(graph, RunUpTo("average-fetches", std::move(graph), Options({}, 4)));
  int weighted = 0;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (node.op != "fetch") continue;
    const bool is_mean = node.attrs.String("name") == "mean";
    EXPECT_EQ(node.attrs.Bool("weighted"), is_mean);
    EXPECT_EQ(ProducerOf(graph, node, 0).op, is_mean ? "concat" : "reduce_mean");
    if (!is_mean) continue;
    const Node& pair = ProducerOf(graph, node, 0);
    EXPECT_EQ(ProducerOf(graph, ProducerOf(graph, pair, 0), 0).op, "step_mean");
    EXPECT_EQ(ProducerOf(graph, ProducerOf(graph, pair, 1), 0).op, "reduce_sum");
    ++weighted;
  }
  EXPECT_EQ(weighted, 1);
}

TEST(AverageFetchesTest, RefusesToAverageIntegers) {
  GraphBuilder b(Ops(), "g");
  const Samples samples = ReadSamples(b, 4);
  b.SetLoss(ReduceMean(MatMul(samples.rows, Weight(b, "w", {16, 4}))));
  Fetch(samples.labels, "labels");
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  EXPECT_THAT(RunUpTo("average-fetches", std::move(graph), Options({}, 4)).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("fetches i32[4] from each of 4 micro-batches")));
}

}  // namespace
}  // namespace oneflow::testing
