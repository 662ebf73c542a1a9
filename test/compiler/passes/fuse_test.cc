// fuse: a row of the table of fusions is found where it holds, and only there.
#include <map>

#include "compiler/schedule/named_schedule.h"
#include "oneflow_core/fused_form.h"
#include "oneflow_core/nn/batch_norm.h"
#include "oneflow_core/ops/ops.h"
#include "test/compiler/passes/testing.h"
#include "test/support/names.h"

namespace oneflow::testing {
namespace {

Tensor ConvolvedAs(GraphBuilder& b, const Tensor& x, const std::string& name, int64_t channels) {
  return Conv2d(x, Weight(b, name, {channels, x.shape()[1], 3, 3}), /*stride=*/1, /*padding=*/1);
}
Tensor Normalized(GraphBuilder& b, const Tensor& x, const std::string& name, int64_t channels) {
  return nn::BatchNorm(ConvolvedAs(b, x, name, channels), name, {.training = true});
}

// Two layers and, if asked for, the first one's values added to the second's.
Graph Layers(bool residual, bool fetch = false) {
  GraphBuilder b(Ops(), "layers");
  const Tensor image = Reshape(ReadSamples(b, 8).rows, {8, 1, 4, 4});
  const Tensor x = Relu(Normalized(b, image, "a", 16));
  const Tensor y = Normalized(b, x, "b", 16);
  if (fetch) Fetch(ReduceMean(y), "mean");
  b.SetLoss(ReduceMean(ReduceMean(Relu(residual ? x + y : y), {2, 3})));
  return *b.Finish();
}

// The model that ends with the product of `x` and `head`: classes of the samples that `x` is made of.
Graph ClassifierOf(const Tensor& x, const Tensor& head, const Samples& samples) {
  const Tensor loss = ReduceMean(SoftmaxCrossEntropy(MatMul(x, head), samples.labels));
  x.builder()->SetLoss(loss);
  Fetch(loss, "loss");
  return *x.builder()->Finish();
}

absl::StatusOr<Graph> Fused(Graph graph, const CompileOptions& options) {
  OF_ASSIGN_OR_RETURN(graph, RunUpTo("channel-blocks", std::move(graph), options));
  OF_RETURN_IF_ERROR(VerifyBoxedGraph(graph, Ops(), options));
  return graph;
}

std::map<std::string, int> Counts(const Graph& graph) {
  std::map<std::string, int> counts;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) ++counts[graph.node(id).op];
  return counts;
}

const std::vector<std::string> kFusedOps = {"channel_statistics",   "batch_norm_relu",    "batch_norm_add_relu",
                                            "batch_norm_relu_sums", "batch_norm_relu_dx", "add_relu_grad"};

TEST(FuseTest, ANormAndItsReluAreOneForwardAndBackward) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, Fused(Layers(false), Options({})));
  auto counts = Counts(graph);
  for (const char* op : {"channel_statistics", "batch_norm_relu", "batch_norm_relu_sums", "batch_norm_relu_dx"}) {
    EXPECT_EQ(counts[op], 2) << op;
  }
  for (const char* op : {"relu", "relu_grad", "batch_norm", "batch_norm_sums", "batch_norm_dx", "channel_mean"}) {
    EXPECT_EQ(counts[op], 0) << op;
  }
}

TEST(FuseTest, ANodeSaysWhatItIsMadeOf) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, Fused(Layers(false), Options({})));
  const Node& whole = NodeOf(graph, "relu");
  EXPECT_EQ(whole.op, "batch_norm_relu");
  EXPECT_EQ(whole.attrs.String("made_of"), "h = batch_norm(x, gamma, beta, mean, var); y = relu(h)");
  EXPECT_EQ(whole.attrs.Double("epsilon"), 1e-5);
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (node.op != "batch_norm_relu_dx") continue;
    EXPECT_EQ(graph.node(node.forward).op, "batch_norm_relu") << "what its parts served";
    EXPECT_THAT(node.attrs.String("made_of"), HasSubstr(" where y = batch_norm_relu(x, "));
  }
}

// The ReLU's gradient is read by the norm's and by what was added, so it stays; the sum behind it does not.
TEST(FuseTest, WhatIsAddedBeforeTheReluIsFusedToo) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, Fused(Layers(true), Options({})));
  auto counts = Counts(graph);
  EXPECT_EQ(counts["batch_norm_add_relu"], 1);
  EXPECT_EQ(counts["batch_norm_relu"], 1);
  EXPECT_EQ(counts["relu_grad"], 1) << "of the sum";
  EXPECT_EQ(counts["batch_norm_relu_dx"] + counts["add_relu_grad"], 1);
  EXPECT_EQ(counts["add"], 0);
}

// The gradient that the second layer's convolution gives is not rounded, the other addend is.
TEST(FuseTest, AddendsOfSeveralTypesAreAddedUnrounded) {
  CompileOptions options = Options({});
  options.precision.compute = DType::kBFloat16;
  GraphBuilder b(Ops(), "residual");
  Tensor x = Relu(ConvolvedAs(b, Reshape(ReadSamples(b, 8).rows, {8, 1, 4, 4}), "a", 16));
  x = Relu(x + ConvolvedAs(b, x, "b", 16));
  b.SetLoss(ReduceMean(ReduceMean(x, {2, 3})));
  ASSERT_OK_AND_ASSIGN(const Graph graph, Fused(*b.Finish(), options));
  ASSERT_THAT(NamesOf(graph, "add_relu_grad"), SizeIs(1));
  const Node& sum = NodeOf(graph, NamesOf(graph, "add_relu_grad")[0]);
  const auto dtype = [&](int input) { return graph.value(sum.inputs[input]).type.dtype; };
  EXPECT_EQ(dtype(0), DType::kFloat32);
  EXPECT_EQ(dtype(1), DType::kBFloat16);
  EXPECT_EQ(graph.value(sum.outputs[0]).type.dtype, DType::kBFloat16);
  EXPECT_EQ(Counts(graph)["relu_grad"], 0) << "that of the last layer is one with what comes before it";
}

// The second sum is one with the second gradient and reads the first one's dx, which therefore stays.
TEST(FuseTest, WhatAnotherWholeReadsIsNotGone) {
  GraphBuilder b(Ops(), "norms");
  const Tensor rows = ReadSamples(b, 8).rows, gamma = b.Variable("gamma", {DType::kFloat32, {16}}, "ones");
  const Tensor beta = b.Variable("beta", {DType::kFloat32, {16}}, "zeros");
  const auto gradient = [&](const std::string& name) {
    const Tensor x = MatMul(rows, Weight(b, name, {16, 16}));
    const std::vector<Tensor> norm = b.Op("layer_norm", {x, gamma, beta}, {{"epsilon", 1e-5}});
    return b.Op("layer_norm_grad", {x, x, gamma, norm[1], norm[2]}, {});
  };
  const std::vector<Tensor> first = gradient("a"), second = gradient("b");
  const Tensor sums[] = {b.Op("add_n", {rows, first[0]}, {})[0], b.Op("add_n", {first[0], second[0]}, {})[0]};
  for (const Tensor& sum : sums) Fetch(ReduceMean(sum), absl::StrCat("sum", sum.id()));
  for (const auto* const gradients : {&first, &second}) {
    for (int i : {1, 2}) Fetch(ReduceMean((*gradients)[i]), absl::StrCat("of", (*gradients)[i].id()));
  }
  ASSERT_OK_AND_ASSIGN(const Graph graph, Fused(*b.Finish(), Options({})));
  EXPECT_THAT(NamesOf(graph, "add_layer_norm_grad"), SizeIs(1));
  EXPECT_THAT(NamesOf(graph, "layer_norm_grad"), SizeIs(1));
}

// Of a row's two addends neither is gone if they are one value.
TEST(FuseTest, ASumOfAValueWithItselfStaysApart) {
  GraphBuilder b(Ops(), "norms");
  const Tensor rows = ReadSamples(b, 8).rows, gamma = b.Variable("gamma", {DType::kFloat32, {16}}, "ones");
  const Tensor x = MatMul(rows, Weight(b, "w", {16, 16}));
  const std::vector<Tensor> norm =
      b.Op("layer_norm", {x, gamma, b.Variable("beta", {DType::kFloat32, {16}}, "zeros")}, {{"epsilon", 1e-5}});
  const std::vector<Tensor> gradient = b.Op("layer_norm_grad", {x, x, gamma, norm[1], norm[2]}, {});
  Fetch(ReduceMean(b.Op("add_n", {gradient[0], gradient[0]}, {})[0]), "sum");
  for (const int i : {1, 2}) Fetch(ReduceMean(gradient[i]), absl::StrCat("of", i));
  ASSERT_OK_AND_ASSIGN(const Graph graph, Fused(*b.Finish(), Options({})));
  EXPECT_THAT(NamesOf(graph, "layer_norm_grad"), SizeIs(1));
}

TEST(FuseTest, OfGpusAProductAddsToASumOverMicroBatchesItself) {
  const auto sums = [](std::vector<Axis> axes, int micro_batches, DeviceKind device, bool adds = true) {
    CompileOptions options = Options(std::move(axes), micro_batches);
    options.device = device;
    options.adds_in_products = adds;
    const absl::StatusOr<Graph> graph = Fused(Mlp(), options);
    EXPECT_OK(graph.status());
    return std::pair(NamesOf(*graph, "accumulate_matmul_wgrad").size(), NamesOf(*graph, "accumulate").size());
  };
  // The head is one with its loss; and the loss itself is averaged.
  EXPECT_EQ(sums({}, 2, DeviceKind::kCuda), std::pair(size_t{1}, size_t{2}));
  EXPECT_EQ(sums({{"dp", 2}}, 2, DeviceKind::kCuda), std::pair(size_t{1}, size_t{2}));
  EXPECT_EQ(sums({}, 1, DeviceKind::kCuda), std::pair(size_t{0}, size_t{0})) << "there is one micro-batch";
  EXPECT_EQ(sums({}, 2, DeviceKind::kCuda, /*adds=*/false), std::pair(size_t{0}, size_t{3}));
  EXPECT_EQ(sums({}, 2, DeviceKind::kCpu), std::pair(size_t{0}, size_t{3}));
}

TEST(FuseTest, AResidualAndTheNormBehindItAreOne) {
  GraphBuilder b(Ops(), "residual");
  const Tensor rows = ReadSamples(b, 8).rows;
  Tensor x = MatMul(rows, Weight(b, "in", {16, 16}));
  const Tensor ones = b.Variable("gamma", {DType::kFloat32, {16}}, "ones"),
               zeros = b.Variable("beta", {DType::kFloat32, {16}}, "zeros");
  x = x + MatMul(LayerNorm(x, ones, zeros), Weight(b, "up", {16, 16}));
  x = x + MatMul(LayerNorm(x, ones, zeros), Weight(b, "down", {16, 16}));
  b.SetLoss(ReduceMean(x));
  ASSERT_OK_AND_ASSIGN(const Graph graph, Fused(*b.Finish(), Options({})));
  auto counts = Counts(graph);
  EXPECT_EQ(counts["add_layer_norm"], 1);
  EXPECT_EQ(counts["layer_norm"], 1) << "of the first rows, which are no sum";
  EXPECT_EQ(counts["add_layer_norm_grad"], 2);
  EXPECT_EQ(counts["layer_norm_grad"], 0);
}

// What the norm of the sum reads is made of the sum, so that there is no place for both at once.
TEST(FuseTest, WhatLiesBetweenPartsKeepsThemApart) {
  GraphBuilder b(Ops(), "between");
  const Tensor rows = ReadSamples(b, 8).rows;
  const Tensor x = rows + rows;
  const Tensor gamma = ReduceMean(x, {0});
  Fetch(ReduceMean(b.Op("rms_norm", {x, gamma}, {{"epsilon", 1e-5}})[0]), "mean");
  ASSERT_OK_AND_ASSIGN(const Graph graph, Fused(*b.Finish(), Options({})));
  EXPECT_THAT(NamesOf(graph, "rms_norm"), SizeIs(1));
  EXPECT_THAT(NamesOf(graph, "add_rms_norm"), IsEmpty());
}

TEST(FuseTest, WhatSomethingElseReadsStays) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, Fused(Layers(false, /*fetch=*/true), Options({})));
  auto counts = Counts(graph);
  EXPECT_EQ(counts["batch_norm_relu"], 1) << "the other one is fetched";
  EXPECT_EQ(counts["batch_norm"], 1);
  EXPECT_EQ(counts["relu"], 1);
}

// A rank has addends of the statistics, which are boxed one after the other; all else is as on one device.
TEST(FuseTest, LayoutsSayWhatLiesTogether) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, Fused(Layers(false), Options({{"dp", 2}})));
  auto counts = Counts(graph);
  EXPECT_EQ(counts["channel_statistics"], 0);
  EXPECT_EQ(counts["channel_variance"], 2);
  EXPECT_EQ(counts["batch_norm_relu"], 2);
  EXPECT_EQ(counts["batch_norm_relu_dx"], 2);
}

TEST(FuseTest, FusedOpsLieInBlocks) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, Fused(Layers(true), Options({})));
  for (const char* op : {"batch_norm_relu", "batch_norm_add_relu"}) {
    for (const std::string& name : NamesOf(graph, op)) {
      EXPECT_EQ(graph.value(NodeOf(graph, name).outputs[0]).layout, MemoryLayout::kChannelBlocks) << name;
    }
  }
  EXPECT_THAT(NamesOf(graph, "reorder"), IsEmpty());
}

TEST(FuseTest, OnAllDevicesUnlessAskedNotTo) {
  CompileOptions options = Options({});
  ASSERT_OK_AND_ASSIGN(const Graph cpu, Fused(Layers(true), options));
  options.device = DeviceKind::kCuda;
  ASSERT_OK_AND_ASSIGN(const Graph cuda, Fused(Layers(true), options));
  options.fuse = false;
  ASSERT_OK_AND_ASSIGN(const Graph unfused, Fused(Layers(true), options));
  for (const std::string& op : kFusedOps) {
    EXPECT_THAT(NamesOf(cuda, op), SizeIs(NamesOf(cpu, op).size())) << op;
    EXPECT_THAT(NamesOf(unfused, op), IsEmpty());
  }
}

// --- a head and its loss

struct HeadOptions {
  bool tied = false;  // the weight is [classes, width]
  bool trained = true;
  int64_t classes = 96, width = 32;
  SbpHint hint = {};      // of the weight
  bool accuracy = false;  // something else reads the logits
  bool squared = false;   // the gradient of losses depends on them
};
Graph ModelWithHead(const HeadOptions& o = {}) {
  GraphBuilder b(Ops(), "head");
  const Samples samples = ReadSamples(b, 128);
  const Tensor x = Relu(MatMul(samples.rows, Weight(b, "up", {16, o.width})));
  const Tensor w = Weight(b, "w", o.tied ? Shape{o.classes, o.width} : Shape{o.width, o.classes}, o.hint);
  const Tensor logits = MatMul(x, w, o.tied);
  const Tensor losses = SoftmaxCrossEntropy(logits, samples.labels);
  const Tensor loss = ReduceMean(o.squared ? Square(losses) : losses);
  if (o.trained) b.SetLoss(loss);
  if (o.accuracy) Fetch(ReduceMean(b.Op1("top1_correct", {logits, samples.labels})), "accuracy");
  Fetch(loss, "loss");
  return *b.Finish();
}

const std::vector<std::string> kPartsOfHead = {"softmax_cross_entropy", "softmax_cross_entropy_grad"};

TEST(FuseTest, AHeadItsLossAndTheirGradientsAreOne) {
  for (const bool tied : {false, true}) {
    for (const std::vector<Axis>& axes : {std::vector<Axis>{}, {{"dp", 2}}, {{"pp", 2}}}) {
      ASSERT_OK_AND_ASSIGN(const Graph graph,
                           Fused(ModelWithHead({.tied = tied}), Options(axes, axes.empty() ? 1 : 2)));
      ASSERT_THAT(NamesOf(graph, "matmul_cross_entropy_grad"), SizeIs(1)) << axes.size();
      for (const std::string& op : kPartsOfHead) EXPECT_THAT(NamesOf(graph, op), IsEmpty());
      const Node& head = NodeOf(graph, NamesOf(graph, "matmul_cross_entropy_grad")[0]);
      EXPECT_EQ(head.role, Role::kFusedGradient);
      EXPECT_EQ(head.forward, -1) << "it is its own";
      EXPECT_EQ(graph.node(head.variable).name, "w");
      EXPECT_EQ(head.attrs.Bool("transpose_b"), tied);
      EXPECT_EQ(head.attrs.Bool("dx_transpose_b"), !tied);
      EXPECT_THAT(head.attrs.String("made_of"), HasSubstr("softmax_cross_entropy"));
      EXPECT_EQ(graph.value(head.outputs[2]).type.shape, (tied ? Shape{96, 32} : Shape{32, 96}));
    }
  }
}

TEST(FuseTest, ARowIsForTheDevicesThatItSays) {
  for (const Fusion& row : Fusions()) {
    if (row.whole.op == "add_layer_norm") {
      EXPECT_FALSE(row.row->only.has_value());
    }
    if (row.whole.op == "packed_matmul_cross_entropy") {
      EXPECT_EQ(row.row->only, DeviceKind::kCpu);
    }
  }
  CompileOptions options = Options({});
  options.precision.compute = DType::kBFloat16;
  const HeadOptions head = {.classes = 128, .width = 64};
  ASSERT_OK_AND_ASSIGN(const Graph cpu, Fused(ModelWithHead(head), options));
  EXPECT_THAT(NamesOf(cpu, "packed_matmul_cross_entropy_grad"), SizeIs(1));
  options.device = DeviceKind::kCuda;
  ASSERT_OK_AND_ASSIGN(const Graph cuda, Fused(ModelWithHead(head), options));
  EXPECT_THAT(NamesOf(cuda, "matmul_cross_entropy_grad"), SizeIs(1));
}

// A bias is one with the product before it on CPUs, in floats, and with the gelu behind it on CUDA.
TEST(FuseTest, ABiasIsOneWithItsNeighbour) {
  GraphBuilder b(Ops(), "mlp");
  const Samples samples = ReadSamples(b, 128);
  const Tensor x = MatMul(samples.rows, Weight(b, "up", {16, 32}));
  const Tensor h = Gelu(BiasAdd(x, b.Variable("bias", {DType::kFloat32, {32}}, "zeros")));
  const Graph model = ClassifierOf(h, Weight(b, "down", {32, 96}), samples);
  for (const DeviceKind device : {DeviceKind::kCpu, DeviceKind::kCuda}) {
    CompileOptions options = Options({{"dp", 2}});
    options.device = device;
    ASSERT_OK_AND_ASSIGN(const Graph graph, Fused(model, options));
    const bool is_cuda = device == DeviceKind::kCuda;
    EXPECT_THAT(NamesOf(graph, "matmul_bias"), SizeIs(is_cuda ? 0 : 1));
    EXPECT_THAT(NamesOf(graph, "bias_add"), IsEmpty());
    for (const Fusion& row : Fusions()) {
      if (row.row->only != DeviceKind::kCuda || row.row->of_sums) continue;  // there is one micro-batch
      ASSERT_THAT(NamesOf(graph, row.whole.op), SizeIs(is_cuda ? 1 : 0)) << row.whole.op;
      for (const PatternCall& part : row.parts) {
        EXPECT_THAT(NamesOf(graph, part.op), SizeIs(is_cuda || part.op == "bias_add" ? 0 : 1)) << part.op;
      }
    }
    if (is_cuda) {
      EXPECT_EQ(NodeOf(graph, NamesOf(graph, "gelu_bias_grad")[0]).role, Role::kFusedGradient);
    }
  }
  CompileOptions narrow = Options({});
  narrow.precision.compute = DType::kBFloat16;
  ASSERT_OK_AND_ASSIGN(const Graph graph, Fused(model, narrow));
  EXPECT_THAT(NamesOf(graph, "matmul_bias"), IsEmpty());
  EXPECT_THAT(NamesOf(graph, "bias_add"), SizeIs(1));
}

// On cpu what follows a product by a weight in panels is done with it; and what several such products give of one value
// is one sum.
TEST(FuseTest, WhatFollowsAProductByAPackedWeightIsOneWithIt) {
  GraphBuilder b(Ops(), "mlp");
  const Samples samples = ReadSamples(b, 128);
  const auto biased = [&](const Tensor& x, const std::string& name, int64_t k, int64_t n) {
    return BiasAdd(MatMul(x, Weight(b, name, {k, n})), b.Variable(name + "/bias", {DType::kFloat32, {n}}, "zeros"));
  };
  const Tensor x = Relu(MatMul(samples.rows, Weight(b, "in", {16, 64})));
  const Tensor q = biased(x, "q", 64, 64), k = biased(x, "k", 64, 64), v = biased(x, "v", 64, 64);
  const Tensor h = biased(Gelu(biased(Softmax(q) * Softmax(k) * v, "up", 64, 128)), "down", 128, 64);
  const Graph model = ClassifierOf(Relu(h), Weight(b, "out", {64, 96}), samples);
  for (const DeviceKind device : {DeviceKind::kCpu, DeviceKind::kCuda}) {
    CompileOptions options = Options({{"dp", 2}});
    options.device = device;
    options.precision.compute = DType::kBFloat16;
    ASSERT_OK_AND_ASSIGN(const Graph graph, Fused(model, options));
    auto counts = Counts(graph);
    const bool is_cpu = device == DeviceKind::kCpu;
    EXPECT_EQ(counts["packed_matmul_bias"], is_cpu ? 4 : 0);
    EXPECT_EQ(counts["packed_matmul_bias_gelu"], is_cpu ? 1 : 0);
    EXPECT_EQ(counts["packed_matmul_gelu_bias_grad"], is_cpu ? 1 : 0);
    EXPECT_EQ(counts["sum_packed_matmul"], is_cpu ? 1 : 0);
    if (!is_cpu) continue;
    EXPECT_EQ(counts["bias_add"] + counts["gelu"], 0);
    const Node& sum = NodeOf(graph, NamesOf(graph, "sum_packed_matmul")[0]);
    EXPECT_THAT(sum.inputs, SizeIs(6));
    EXPECT_EQ(graph.value(sum.outputs[0]).type.dtype, DType::kBFloat16);
  }
}

TEST(FuseTest, AHeadOfNarrowNumbersIsOneWithTheRoundingOfItsGradient) {
  const struct {
    DType dtype;
    int64_t classes, width;
    const char* whole;
  } kCases[] = {{DType::kBFloat16, 128, 64, "packed_matmul_cross_entropy_grad"},
                {DType::kBFloat16, 90, 64, "matmul_cross_entropy_grad"},
                {DType::kFloat16, 128, 64, "matmul_cross_entropy_grad"}};
  for (const auto& c : kCases) {
    for (const bool tied : {false, true}) {
      CompileOptions options = Options({});
      options.precision.compute = c.dtype;
      const HeadOptions head = {.tied = tied, .classes = c.classes, .width = c.width};
      ASSERT_OK_AND_ASSIGN(const Graph graph, Fused(ModelWithHead(head), options));
      ASSERT_THAT(NamesOf(graph, c.whole), SizeIs(1)) << Name(c.dtype) << " " << c.classes;
      const Node& whole = NodeOf(graph, NamesOf(graph, c.whole)[0]);
      EXPECT_EQ(whole.attrs.Bool("dw_transpose"), tied);
      EXPECT_EQ(graph.value(whole.outputs[2]).type.dtype, DType::kFloat32);
    }
  }
}

TEST(FuseTest, AHeadThatIsNotTrainedGivesItsLossAlone) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, Fused(ModelWithHead({.trained = false}), Options({{"dp", 2}})));
  EXPECT_THAT(NamesOf(graph, "matmul_cross_entropy"), SizeIs(1));
  CompileOptions options = Options({});
  options.precision.compute = DType::kBFloat16;
  const HeadOptions narrow = {.trained = false, .classes = 128, .width = 64};
  ASSERT_OK_AND_ASSIGN(const Graph packed, Fused(ModelWithHead(narrow), options));
  EXPECT_THAT(NamesOf(packed, "packed_matmul_cross_entropy"), SizeIs(1));
}

// Whoever else reads the logits, classes that are split, a loss whose gradient needs it, an order of acts that has
// forward and gradient as two.
TEST(FuseTest, AHeadStaysApartWhereItsPartsAreNotOneAct) {
  CompileOptions scheduled = Options({{"pp", 2}}, 4);
  scheduled.pipeline = *MakeSchedule({.name = "1f1b", .num_ranks = 2, .num_micro_batches = 4});
  CompileOptions unfused = Options({});
  unfused.fuse = false;
  const struct {
    const char* why;
    HeadOptions head;
    CompileOptions options;
  } kCases[] = {{"accuracy", {.accuracy = true}, Options({})},
                {"split classes", {.hint = {{"tp", Sbp::Split(1)}}}, Options({{"tp", 2}})},
                {"split width", {.hint = {{"tp", Sbp::Split(0)}}}, Options({{"tp", 2}})},
                {"gradient of the square", {.squared = true}, Options({})},
                {"schedule", {}, scheduled},
                {"unfused", {}, unfused}};
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.why);
    ASSERT_OK_AND_ASSIGN(const Graph graph, Fused(ModelWithHead(c.head), c.options));
    EXPECT_THAT(NamesOf(graph, "matmul_cross_entropy_grad"), IsEmpty());
    EXPECT_THAT(NamesOf(graph, "matmul_cross_entropy"), IsEmpty());
  }
  // What is only evaluated has no gradient that a schedule could tell from it.
  ASSERT_OK_AND_ASSIGN(const Graph evaluated, Fused(ModelWithHead({.trained = false}), scheduled));
  EXPECT_THAT(NamesOf(evaluated, "matmul_cross_entropy"), SizeIs(1));
}

// Of a weight that is both looked up and multiplied by, the rows that were looked up are added to the other gradient.
TEST(FuseTest, TheGradientOfATiedTableIsAddedWhereItIs) {
  const auto graph_of = [](bool tied) {
    GraphBuilder b(Ops(), "tied");
    const Samples samples = ReadSamples(b, 8);
    const Tensor table = Weight(b, "table", {10, 16});
    const Tensor x = b.Op1("embedding", {table, samples.labels});
    const Tensor logits = MatMul(x, tied ? table : Weight(b, "head", {10, 16}), /*transpose_b=*/true);
    b.SetLoss(ReduceMean(SoftmaxCrossEntropy(logits, samples.labels)));
    return *b.Finish();
  };
  for (const std::vector<Axis>& axes : {std::vector<Axis>{}, {{"dp", 2}}}) {
    ASSERT_OK_AND_ASSIGN(const Graph tied, Fused(graph_of(true), Options(axes)));
    EXPECT_THAT(NamesOf(tied, "add_embedding_grad"), SizeIs(1)) << axes.size();
    EXPECT_THAT(NamesOf(tied, "embedding_grad"), IsEmpty());
  }
  ASSERT_OK_AND_ASSIGN(const Graph apart, Fused(graph_of(false), Options({})));
  EXPECT_THAT(NamesOf(apart, "embedding_grad"), SizeIs(1)) << "nothing to add to";
  // What is summed over micro-batches is not what is added.
  ASSERT_OK_AND_ASSIGN(const Graph summed, Fused(graph_of(true), Options({}, 2)));
  EXPECT_THAT(NamesOf(summed, "embedding_grad"), SizeIs(1));
}

// y = relu(batch_norm(x)), the gradient d of its inside, and the sums that batch_norm's gradient takes of d.
struct NormedRelu {
  NormedRelu(GraphBuilder& b, double epsilon_of_sums)
      : x(Reshape(ReadSamples(b, 8).rows, {8, 16, 1, 1})),
        c(Constant(b, {DType::kFloat32, {16}}, 1)),
        y(Relu(b.Op1("batch_norm", {x, c, c, c, c}, {{"epsilon", 1e-5}}))),
        d(b.Op1("relu_grad", {x, y})),
        sums(b.Op("batch_norm_sums", {d, x, c, c}, {{"epsilon", epsilon_of_sums}})) {}

  const Tensor x, c, y, d;
  const std::vector<Tensor> sums;
};

// The parts' numbers differ, so that no one op can have both.
TEST(FuseTest, AttributesThatContradictOneAnotherAreNotFused) {
  const auto graph_of = [](double epsilon) {
    GraphBuilder b(Ops(), "pair");
    const NormedRelu of(b, epsilon);
    Fetch(of.sums[0], "dgamma");
    Fetch(of.sums[1], "dbeta");
    Fetch(of.y, "y");
    return *b.Finish();
  };
  ASSERT_OK_AND_ASSIGN(const Graph same, Fused(graph_of(1e-5), Options({})));
  EXPECT_THAT(NamesOf(same, "batch_norm_relu_sums"), SizeIs(1));
  ASSERT_OK_AND_ASSIGN(const Graph other, Fused(graph_of(1e-3), Options({})));
  EXPECT_THAT(NamesOf(other, "batch_norm_relu_sums"), IsEmpty());
  EXPECT_THAT(NamesOf(other, "batch_norm_relu"), SizeIs(1));
}

// The ReLU's gradient is a part of two wholes, or of none.
TEST(FuseTest, APartOfSeveralIsGoneOnlyIfAllItsReadersAre) {
  const auto graph_of = [](bool read_elsewhere) {
    GraphBuilder b(Ops(), "three");
    const NormedRelu of(b, 1e-5);
    Fetch(b.Op1("batch_norm_dx", {of.d, of.x, of.c, of.c, of.c, of.sums[0], of.sums[1]}, {{"epsilon", 1e-5}}), "dx");
    if (read_elsewhere) Fetch(ReduceMean(of.d), "mean");
    Fetch(of.y, "y");
    return *b.Finish();
  };
  ASSERT_OK_AND_ASSIGN(const Graph alone, Fused(graph_of(false), Options({})));
  EXPECT_THAT(NamesOf(alone, "relu_grad"), IsEmpty());
  EXPECT_THAT(NamesOf(alone, "batch_norm_relu_sums"), SizeIs(1));
  EXPECT_THAT(NamesOf(alone, "batch_norm_relu_dx"), SizeIs(1));
  ASSERT_OK_AND_ASSIGN(const Graph shared, Fused(graph_of(true), Options({})));
  EXPECT_THAT(NamesOf(shared, "relu_grad"), SizeIs(1));
  EXPECT_THAT(NamesOf(shared, "batch_norm_sums"), SizeIs(1));
  EXPECT_THAT(NamesOf(shared, "batch_norm_dx"), SizeIs(1));
}

}  // namespace
}  // namespace oneflow::testing
