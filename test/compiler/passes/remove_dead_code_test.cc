#include "test/compiler/passes/testing.h"
#include "test/support/names.h"

namespace oneflow::testing {
namespace {

TEST(RemoveDeadCodeTest, DropsWhatNoEffectDependsOn) {
  GraphBuilder b(Ops(), "g");
  const Tensor x = MatMul(ReadSamples(b, 4).rows, Weight(b, "w", {16, 4}));
  Relu(Tanh(x));
  Fetch(Sigmoid(x), "y");
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  ASSERT_OK_AND_ASSIGN(graph, RunUpTo("remove-dead-code", std::move(graph), Options({})));
  EXPECT_THAT(NamesOf(graph, "relu"), IsEmpty());
  EXPECT_THAT(NamesOf(graph, "tanh"), IsEmpty());
  EXPECT_THAT(NamesOf(graph, "sigmoid"), SizeIs(1));
}

TEST(RemoveDeadCodeTest, KeepsMutationsAndTheLoss) {
  GraphBuilder b(Ops(), "g");
  const Tensor w = Weight(b, "w", {16, 4});
  b.SetLoss(ReduceMean(MatMul(ReadSamples(b, 4).rows, w)));
  const Tensor count = b.Variable("count", {DType::kInt64, {}}, "zeros", {}, false);
  b.Op("increment", {count});
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  ASSERT_OK_AND_ASSIGN(graph, RunUpTo("remove-dead-code", std::move(graph), Options({})));
  EXPECT_GE(graph.FindNode("increment"), 0);
  EXPECT_TRUE(graph.is_trained());
}

}  // namespace
}  // namespace oneflow::testing
