#include "oneflow_core/composed.h"
#include "test/compiler/passes/testing.h"
#include "test/support/names.h"

namespace oneflow::testing {
namespace {

absl::StatusOr<Graph> Differentiate(Graph graph, int micro_batches = 1) {
  return RunUpTo("autodiff", std::move(graph), Options({}, micro_batches));
}

TEST(AutodiffTest, FollowsOnlyPathsToTrainableVariables) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, Differentiate(Mlp()));
  // Both weights have a gradient; of the two matrix products only the second needs one of its input, because the first
  // reads data.
  EXPECT_THAT(NamesOf(graph, "accumulate"), ElementsAre("down/grad", "up/grad"));
  EXPECT_THAT(NamesOf(graph, "matmul_wgrad"), ElementsAre("matmul_2/matmul_wgrad", "matmul/matmul_wgrad"));
  EXPECT_THAT(NamesOf(graph, "matmul"), ElementsAre("matmul", "matmul_2", "matmul_2/matmul"));
}

// What f16 cannot hold because it is small it can as a multiple of it.
TEST(AutodiffTest, BeginsWithTheScaleOfALossThatHasOne) {
  CompileOptions options = Options({}, /*micro_batches=*/4);
  options.precision.compute = DType::kFloat16;
  ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("autodiff", Mlp(), options));
  const Node& start = NodeOf(graph, "reduce_mean/grad");
  EXPECT_EQ(start.op, "scale");
  EXPECT_EQ(start.attrs.Double("alpha"), 0.25);
  EXPECT_EQ(start.role, Role::kInputGradient);
  const Node& scale = ProducerOf(graph, start, 0);
  EXPECT_EQ(scale.name, "optimizer/loss_scale");
  EXPECT_FALSE(scale.attrs.Bool("trainable"));
}

// A part of the model may ask for f16 itself.
TEST(AutodiffTest, ALossIsScaledWhereverSomethingIsF16) {
  GraphBuilder b(Ops(), "scope");
  Tensor x = ReadSamples(b, 4).rows;
  {
    const GraphBuilder::PrecisionScope half(b, DType::kFloat16);
    x = MatMul(x, Weight(b, "w", {16, 4}));
  }
  b.SetLoss(ReduceMean(x));
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  ASSERT_OK_AND_ASSIGN(graph, Differentiate(std::move(graph)));
  EXPECT_GE(graph.FindNode("optimizer/loss_scale"), 0);
}

TEST(AutodiffTest, LeavesAGraphWithoutALossAlone) {
  GraphBuilder b(Ops(), "evaluate");
  Fetch(MatMul(ReadSamples(b, 4).rows, Weight(b, "w", {16, 4})), "y");
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  const int before = graph.num_nodes();
  ASSERT_OK_AND_ASSIGN(graph, Differentiate(std::move(graph)));
  EXPECT_EQ(graph.num_nodes(), before);
}

TEST(AutodiffTest, AddsWhatSeveralReadersContribute) {
  GraphBuilder b(Ops(), "residual");
  const Tensor x = MatMul(ReadSamples(b, 4).rows, Weight(b, "w", {16, 4}));
  b.SetLoss(ReduceMean(Add(x, Relu(x))));
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  ASSERT_OK_AND_ASSIGN(graph, Differentiate(std::move(graph)));
  EXPECT_THAT(NamesOf(graph, "add_n"), ElementsAre("matmul/grad_sum"));
}

// A slice's gradient is a slice, and where addends are the gradient is whole.
TEST(AutodiffTest, AGradientLiesAsItsValueWasAskedToIfSoAsked) {
  GraphBuilder b(Ops(), "lying");
  const Tensor x = MatMul(ReadSamples(b, 4).rows, Weight(b, "w", {16, 4}));
  b.SetLoss(ReduceMean(
      x.ToWithGradient({{"tp", Sbp::Partial()}}).ToWithGradient({{"tp", Sbp::Split(0)}}).To({{"tp", Sbp::Split(1)}})));
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  ASSERT_OK_AND_ASSIGN(graph, Differentiate(std::move(graph)));
  std::vector<std::string> hints;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (node.op == "to" && !IsForward(node)) hints.push_back(ToString(graph.value(node.outputs[0]).hint));
  }
  EXPECT_THAT(hints, ElementsAre("tp:S(0)", "tp:B"));
}

TEST(AutodiffTest, AccumulatesEachUseOfATiedWeightByItself) {
  GraphBuilder b(Ops(), "tied");
  const Tensor w = Weight(b, "w", {16, 16});
  b.SetLoss(ReduceMean(MatMul(MatMul(ReadSamples(b, 4).rows, w), w)));
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  ASSERT_OK_AND_ASSIGN(graph, Differentiate(std::move(graph)));
  EXPECT_THAT(NamesOf(graph, "accumulate"), ElementsAre("w/grad_part", "w/grad_part_2"));
  EXPECT_EQ(NodeOf(graph, "w/grad").op, "add_n");
}

TEST(AutodiffTest, StartsAtOneOverTheNumberOfMicroBatches) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, Differentiate(Mlp(), 4));
  EXPECT_EQ(NodeOf(graph, "reduce_mean/grad").attrs.Double("value"), 0.25);
}

TEST(AutodiffTest, GivesNewNodesTheForwardNodesNameLineAndPlace) {
  GraphBuilder b(Ops(), "placed");
  const GraphBuilder::PlacementScope scope(b, {{"pp", 0}});
  b.SetLoss(ReduceMean(Relu(MatMul(ReadSamples(b, 4).rows, Weight(b, "w", {16, 4})))));
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  ASSERT_OK_AND_ASSIGN(graph, Differentiate(std::move(graph)));
  int num_backward = 0;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (!IsBackward(node)) continue;
    ++num_backward;
    const Node& forward = NodeOf(graph, node.name.substr(0, node.name.rfind('/')));
    EXPECT_EQ(node.source, forward.source) << node.name;
    EXPECT_EQ(node.at, forward.at) << node.name;
  }
  EXPECT_GE(num_backward, 4);
}

TEST(AutodiffTest, TellsWhatEachNodeServes) {
  GraphBuilder b(Ops(), "roles");
  const Tensor x = ReadSamples(b, 4).rows;
  const Tensor up = MatMul(x, Weight(b, "up", {16, 16}));
  const Tensor scaled = Scale(Weight(b, "down", {16, 4}), 2.0);  // still a weight
  const Tensor gain = Weight(b, "gain", {4}), bias = Weight(b, "bias", {4});
  b.SetLoss(ReduceMean(LayerNorm(MatMul(up, scaled), gain, bias)));
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  ASSERT_OK_AND_ASSIGN(graph, Differentiate(std::move(graph)));
  std::vector<std::string> served;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (!IsBackward(node)) continue;
    served.push_back(absl::StrCat(node.name, ": ", Name(node.role)));
    if (node.forward >= 0) absl::StrAppend(&served.back(), " of ", graph.node(node.forward).name);
    if (node.variable >= 0) absl::StrAppend(&served.back(), " for ", graph.node(node.variable).name);
  }
  EXPECT_THAT(
      served,
      ElementsAre("reduce_mean/grad: input-gradient", "reduce_mean/scale: input-gradient of reduce_mean",
                  "reduce_mean/broadcast_to: input-gradient of reduce_mean",
                  "layer_norm/layer_norm_grad: fused-gradient of layer_norm",
                  "matmul_2/matmul: input-gradient of matmul_2",
                  "matmul_2/matmul_wgrad: weight-gradient of matmul_2 for down",
                  "bias/grad: reduction of layer_norm for bias", "gain/grad: reduction of layer_norm for gain",
                  "scale/scale: weight-gradient of scale for down", "down/grad: reduction of scale for down",
                  "matmul/matmul_wgrad: weight-gradient of matmul for up", "up/grad: reduction of matmul for up"));
}

TEST(AutodiffTest, DifferentiatesTheSumOfSeveralLosses) {
  GraphBuilder b(Ops(), "losses");
  const Tensor x = MatMul(ReadSamples(b, 4).rows, Weight(b, "w", {16, 4}));
  b.SetLoss(ReduceMean(x));
  b.SetLoss(ReduceMean(Relu(x)));
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  ASSERT_OK_AND_ASSIGN(graph, Differentiate(std::move(graph)));
  EXPECT_THAT(NamesOf(graph, "constant"), ElementsAre("reduce_mean/grad", "reduce_mean_2/grad"));
  EXPECT_THAT(NamesOf(graph, "add_n"), ElementsAre("matmul/grad_sum"));  // of both ways
}

TEST(AutodiffTest, NamesOpAndLineOfAnOpWithoutGradient) {
  GraphBuilder b(Ops(), "sums");
  const Tensor x = MatMul(ReadSamples(b, 4).rows, Weight(b, "w", {16, 4}));
  b.SetLoss(ReduceMean(b.Op1("softmax_grad_apply", {x, x, ReduceMax(x, {1})})));
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  EXPECT_THAT(
      Differentiate(std::move(graph)).status(),
      StatusIs(absl::StatusCode::kUnimplemented,
               AllOf(HasSubstr("pass 'autodiff'"), HasSubstr("'softmax_grad_apply'"), HasSubstr("autodiff_test.cc:"))));
}

TEST(AutodiffTest, AnOpWithoutGradientBesideThePathIsNoError) {
  GraphBuilder b(Ops(), "accuracy");
  const Samples samples = ReadSamples(b, 4);
  const Tensor logits = MatMul(samples.rows, Weight(b, "w", {16, 4}));
  b.SetLoss(ReduceMean(SoftmaxCrossEntropy(logits, samples.labels)));
  Fetch(ReduceMean(Top1Correct(logits, samples.labels)), "accuracy");
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  EXPECT_OK(Differentiate(std::move(graph)));
}

// What decides between two, and what is stopped, are constants to the gradient.
TEST(AutodiffTest, NoGradientFlowsPastAComparisonOrAStop) {
  GraphBuilder b(Ops(), "stopped");
  const Tensor x = MatMul(ReadSamples(b, 4).rows, Weight(b, "w", {16, 4}));
  const Tensor stopped = MatMul(StopGradient(x), Weight(b, "v", {4, 4}));
  b.SetLoss(ReduceMean(Where(x > 0, stopped, Scale(stopped, 2))));
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  std::vector<std::string> warnings;
  VariableDists variables;
  ASSERT_OK_AND_ASSIGN(graph, RunPasses(std::move(graph), Options({}), Ops(), variables, nullptr, &warnings));
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("node 'w' (variable")));
  EXPECT_THAT(NamesOf(graph, "adamw_update"), ElementsAre("v/update"));
}

// The gradients of the totals are added, and divided once by the sum of the weights.
TEST(AutodiffTest, AMeanOverMicroBatchesIsDividedByItsWeightAtTheEnd) {
  GraphBuilder b(Ops(), "mean");
  const Samples samples = ReadSamples(b, 4);
  b.SetLoss(MeanCrossEntropy(MatMul(samples.rows, Weight(b, "w", {16, 4})), samples.labels));
  ASSERT_OK_AND_ASSIGN(const Graph whole, b.Finish());
  ASSERT_OK_AND_ASSIGN(const Graph graph, Differentiate(whole, /*micro_batches=*/4));
  EXPECT_EQ(NodeOf(graph, "step_mean/grad").attrs.Double("value"), 1);
  const Node& gradient = NodeOf(graph, "w/grad");
  EXPECT_EQ(gradient.op, "mul");
  EXPECT_EQ(ProducerOf(graph, gradient, 0).name, "w/grad_total");
  EXPECT_EQ(ProducerOf(graph, ProducerOf(graph, gradient, 1), 1).name, "step_mean/weight");
  ASSERT_OK_AND_ASSIGN(const Graph one, Differentiate(whole));
  EXPECT_EQ(NodeOf(one, "w/grad").op, "accumulate") << "of one micro-batch its gradient is its own";
}

TEST(AutodiffTest, AMeanOverMicroBatchesIsTheOnlyLoss) {
  GraphBuilder b(Ops(), "mean");
  const Samples samples = ReadSamples(b, 4);
  const Tensor logits = MatMul(samples.rows, Weight(b, "w", {16, 4}));
  b.SetLoss(MeanCrossEntropy(logits, samples.labels));
  b.SetLoss(ReduceMean(logits));
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  EXPECT_OK(Differentiate(graph));
  EXPECT_THAT(Differentiate(std::move(graph), 4).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("must be the only loss")));
}

TEST(AutodiffTest, RefusesALossWithNothingToTrain) {
  GraphBuilder b(Ops(), "constant");
  b.SetLoss(ReduceMean(ReadSamples(b, 4).rows));
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  EXPECT_THAT(
      Differentiate(std::move(graph)).status(),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("graph 'constant': pass 'autodiff': there is a loss")));
}

TEST(AutodiffTest, WarnsOfTrainableVariablesThatNoLossReaches) {
  GraphBuilder b(Ops(), "forgotten");
  const Tensor x = ReadSamples(b, 4).rows;
  Fetch(MatMul(x, Weight(b, "forgotten", {16, 4})), "y");
  b.SetLoss(ReduceMean(MatMul(x, Weight(b, "used", {16, 4}))));
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  const CompileOptions options = Options({});
  VariableDists variables;
  std::vector<std::string> warnings;
  ASSERT_OK_AND_ASSIGN(graph, RunPasses(std::move(graph), options, Ops(), variables, nullptr, &warnings));
  EXPECT_THAT(warnings,
              ElementsAre(AllOf(StartsWith("graph 'forgotten': node 'forgotten' (variable, "), HasSubstr("testing.h:"),
                                HasSubstr("no loss depends on it, so it is not trained"))));
  EXPECT_THAT(NamesOf(graph, "adamw_update"), ElementsAre("used/update"));
  EXPECT_EQ(variables.count("forgotten"), 1u);  // it is still read
}

TEST(AutodiffTest, RefusesALossThatNothingTrainableReaches) {
  GraphBuilder b(Ops(), "forgotten");
  const Tensor x = ReadSamples(b, 4).rows;
  Fetch(MatMul(x, Weight(b, "w", {16, 4})), "y");
  b.SetLoss(ReduceMean(x));
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  EXPECT_THAT(Differentiate(std::move(graph)).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("it depends on none of 1 trainable variable")));
}

}  // namespace
}  // namespace oneflow::testing
