// expand-composites and fuse-composites: classes that are split stay split, whole ones are computed by one kernel.
#include "test/compiler/passes/testing.h"
#include "test/support/names.h"

namespace oneflow::testing {
namespace {

// A linear classifier of 32768 classes whose weight is split as `hint` says.
Graph Classifier(SbpHint hint, SbpHint features = {}) {
  GraphBuilder b(Ops(), "classifier");
  const Samples samples = ReadSamples(b, 256, std::move(features));
  const Tensor logits = MatMul(samples.rows, Weight(b, "classes", {16, 32768}, std::move(hint)));
  const Tensor loss = ReduceMean(SoftmaxCrossEntropy(logits, samples.labels));
  b.SetLoss(loss);
  Fetch(loss, "loss");
  Fetch(ReduceMean(Top1Correct(logits, samples.labels)), "accuracy");
  return *b.Finish();
}

TEST(CompositesTest, ExpansionKeepsTheNameAndTheOutputsOfTheWhole) {
  ASSERT_OK_AND_ASSIGN(const Graph before, RunUpTo("group-sums", Classifier({}), Options({{"tp", 2}})));
  ASSERT_OK_AND_ASSIGN(const Graph after, RunUpTo("expand-composites", Classifier({}), Options({{"tp", 2}})));
  const Node& whole = NodeOf(before, "softmax_cross_entropy");
  const Node& last = NodeOf(after, "softmax_cross_entropy");
  EXPECT_EQ(whole.op, "softmax_cross_entropy");
  EXPECT_EQ(last.op, "softmax_loss");
  ASSERT_EQ(last.outputs.size(), whole.outputs.size());
  EXPECT_EQ(after.value(last.outputs[1]).type, before.value(whole.outputs[1]).type);
  EXPECT_EQ(ProducerOf(after, last, 0).op, "reduce_max");
  EXPECT_EQ(ProducerOf(after, last, 1).name, "softmax_cross_entropy/softmax_sums");
  EXPECT_EQ(NodeOf(after, "top1_correct").op, "same_index");
}

TEST(CompositesTest, OneDeviceHasNothingToSplit) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("expand-composites", Classifier({}), Options({})));
  EXPECT_EQ(NodeOf(graph, "softmax_cross_entropy").op, "softmax_cross_entropy");
}

TEST(CompositesTest, WholeClassesAreFusedAgain) {
  const SbpHint by_sample = {{"dp", Sbp::Split(0)}};
  ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("fuse-composites", Classifier({}, by_sample), Options({{"dp", 2}})));
  EXPECT_EQ(NodeOf(graph, "softmax_cross_entropy").op, "softmax_cross_entropy");
  EXPECT_EQ(NodeOf(graph, "top1_correct").op, "top1_correct");
  EXPECT_THAT(NamesOf(graph, "reduce_max"), IsEmpty());
  EXPECT_THAT(NamesOf(graph, "softmax_sums"), IsEmpty());
  EXPECT_EQ(graph.value(NodeOf(graph, "softmax_cross_entropy").inputs[0]).dist->ToString(), "[dp=2]{0,1}(S(0))");
}

TEST(CompositesTest, SplitClassesAreReducedToThreeNumbersARow) {
  ASSERT_OK_AND_ASSIGN(const Graph graph,
                       RunUpTo("fuse-composites", Classifier({{"tp", Sbp::Split(1)}}), Options({{"tp", 4}})));
  EXPECT_EQ(NodeOf(graph, "softmax_cross_entropy").op, "softmax_loss");
  EXPECT_EQ(SbpOf(graph, "matmul"), "(S(1))");
  EXPECT_EQ(SbpOf(graph, "softmax_cross_entropy/reduce_max"), "(P(max))");
  EXPECT_EQ(SbpOf(graph, "softmax_cross_entropy/softmax_sums"), "(P)");
  EXPECT_EQ(SbpOf(graph, "top1_correct/first_index"), "(P(min))");
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (node.op != "boxing") continue;
    EXPECT_LE(graph.value(node.outputs[0]).type.shape.count(), 256 * 16)
        << node.name << " moves more than the features";
  }
}

// A user's own maximum stays, and what reads it keeps reading it.
TEST(CompositesTest, AMaximumThatOthersReadIsNotFusedAway) {
  GraphBuilder b(Ops(), "shared");
  const Samples samples = ReadSamples(b, 8);
  const Tensor x = MatMul(samples.rows, Weight(b, "w", {16, 4}));
  const Tensor max = ReduceMax(x, {1});
  Fetch(max, "max");
  const Tensor sum = b.Op1("exp_sum", {x, max});
  Fetch(b.Op1("softmax_apply", {x, max, sum}, {}, std::source_location::current(), "y"), "y");
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  ASSERT_OK_AND_ASSIGN(graph, RunUpTo("fuse-composites", std::move(graph), Options({{"dp", 2}})));
  EXPECT_EQ(NodeOf(graph, "y").op, "softmax_apply");
  EXPECT_THAT(NamesOf(graph, "reduce_max"), ElementsAre("reduce_max"));
}

// A model may keep logits narrow, which are split as others are: the sums of rows are f32.
TEST(CompositesTest, NarrowClassesMayBeSplitToo) {
  const auto classifier = [](bool softmax) {
    GraphBuilder b(Ops(), "narrow");
    const Samples samples = ReadSamples(b, 256);
    const Tensor wide = MatMul(samples.rows, Weight(b, "classes", {16, 32768}, {{"tp", Sbp::Split(1)}}));
    const Tensor logits = Cast(wide, DType::kBFloat16);
    if (softmax) Fetch(ReduceSum(Cast(Softmax(logits), DType::kFloat32)), "sum");
    b.SetLoss(ReduceMean(SoftmaxCrossEntropy(logits, samples.labels)));
    return *b.Finish();
  };
  ASSERT_OK_AND_ASSIGN(const Graph parts, RunUpTo("expand-composites", classifier(true), Options({{"tp", 4}})));
  const auto type = [&](const char* node) { return parts.value(NodeOf(parts, node).outputs[0]).type.ToString(); };
  EXPECT_EQ(NodeOf(parts, "softmax").op, "softmax_apply");
  EXPECT_EQ(type("softmax"), "bf16[256,32768]");
  EXPECT_EQ(type("softmax/reduce_max"), "bf16[256]");
  EXPECT_EQ(type("softmax/exp_sum"), "f32[256]");
  EXPECT_EQ(type("softmax_cross_entropy/softmax_sums"), "f32[256]");
  ASSERT_OK_AND_ASSIGN(const Graph split, RunUpTo("fuse-composites", classifier(false), Options({{"tp", 4}})));
  EXPECT_EQ(NodeOf(split, "softmax_cross_entropy").op, "softmax_loss");
  EXPECT_EQ(SbpOf(split, "softmax_cross_entropy/reduce_max"), "(P(max))");
  EXPECT_EQ(SbpOf(split, "softmax_cross_entropy/softmax_sums"), "(P)");
}

TEST(CompositesTest, AUsersOwnPartsAreFusedToo) {
  GraphBuilder b(Ops(), "own");
  const Samples samples = ReadSamples(b, 8);
  const Tensor x = MatMul(samples.rows, Weight(b, "w", {16, 4}));
  const Tensor max = ReduceMax(x, {1});
  const Tensor sum = b.Op1("exp_sum", {x, max});
  Fetch(b.Op1("softmax_apply", {x, max, sum}, {}, std::source_location::current(), "y"), "y");
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  ASSERT_OK_AND_ASSIGN(graph, RunUpTo("fuse-composites", std::move(graph), Options({{"dp", 2}})));
  EXPECT_EQ(NodeOf(graph, "y").op, "softmax");
}

}  // namespace
}  // namespace oneflow::testing
