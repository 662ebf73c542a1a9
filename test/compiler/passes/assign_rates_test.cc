#include "test/compiler/passes/testing.h"
#include "test/support/names.h"

namespace oneflow::testing {
namespace {

TEST(AssignRatesTest, EverythingActsOncePerStepIfThereIsOneMicroBatch) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("assign-rates", Mlp(), Options({})));
  for (NodeId id = 0; id < graph.num_nodes(); ++id) EXPECT_EQ(graph.node(id).rate, Rate::kStep) << graph.node(id).name;
  EXPECT_THAT(NamesOf(graph, "accumulate"), IsEmpty());
}

TEST(AssignRatesTest, DataFlowsAtMicroBatchRateUntilItIsAccumulated) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("assign-rates", Mlp(), Options({}, 4)));
  for (const char* name : {"read_data", "matmul", "matmul/matmul_wgrad", "up/grad"}) {
    EXPECT_EQ(NodeOf(graph, name).rate, Rate::kMicroBatch) << name;
  }
  for (const char* name : {"up", "up/update", "optimizer/clip", "fetch", "fetch/mean"}) {
    EXPECT_EQ(NodeOf(graph, name).rate, Rate::kStep) << name;
  }
  EXPECT_EQ(ValueRate(graph, NodeOf(graph, "up/grad").outputs[0], Ops()), Rate::kStep);
  EXPECT_EQ(ValueRate(graph, NodeOf(graph, "matmul").outputs[0], Ops()), Rate::kMicroBatch);
}

TEST(AssignRatesTest, ScalesAGradientThatIsTheSameInEveryMicroBatch) {
  GraphBuilder b(Ops(), "decay");
  const Tensor w = Weight(b, "w", {16, 4});
  b.SetLoss(Add(ReduceMean(MatMul(ReadSamples(b, 4).rows, w)), ReduceSum(Square(w))));
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  ASSERT_OK_AND_ASSIGN(graph, RunUpTo("assign-rates", std::move(graph), Options({}, 4)));
  const Node& sum = NodeOf(graph, "w/grad");
  ASSERT_EQ(sum.inputs.size(), 2u);
  const Node& penalty = ProducerOf(graph, sum, 1);
  EXPECT_EQ(penalty.op, "scale");
  EXPECT_EQ(penalty.attrs.Double("alpha"), 4);
  EXPECT_EQ(ProducerOf(graph, sum, 0).op, "accumulate");
}

TEST(AssignRatesTest, RefusesToMutateOncePerMicroBatch) {
  GraphBuilder b(Ops(), "statistics");
  const Tensor x = MatMul(ReadSamples(b, 4).rows, Weight(b, "w", {16, 4}));
  b.SetLoss(ReduceMean(x));
  b.Op("assign", {b.Variable("last", x.type(), "zeros", {}, false), x});
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  EXPECT_THAT(RunUpTo("assign-rates", std::move(graph), Options({}, 2)).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("node 'assign'")));
}

}  // namespace
}  // namespace oneflow::testing
