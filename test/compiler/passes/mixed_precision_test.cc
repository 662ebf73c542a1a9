// mixed-precision and narrow-products: which op computes in which type, and where nothing is rounded that need not be.
#include "oneflow_core/nn/batch_norm.h"
#include "oneflow_core/nn/norm.h"
#include "test/compiler/passes/testing.h"
#include "test/support/names.h"

namespace oneflow::testing {
namespace {

CompileOptions Narrow(std::vector<Axis> axes = {}, int micro_batches = 1) {
  CompileOptions options = Options(std::move(axes), micro_batches);
  options.precision.compute = DType::kBFloat16;
  return options;
}

DType TypeOf(const Graph& graph, absl::string_view name) {
  return graph.value(NodeOf(graph, name).outputs[0]).type.dtype;
}

TEST(MixedPrecisionTest, ChangesNothingWhereNobodyAsks) {
  const Graph before = Mlp();
  ASSERT_OK_AND_ASSIGN(const Graph after, RunUpTo("mixed-precision", Mlp(), Options({})));
  EXPECT_EQ(after.num_nodes(), before.num_nodes());
}

TEST(MixedPrecisionTest, ProductsAreNarrowWhatFollowsThemTooAndTheLossIsFull) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("mixed-precision", Mlp(), Narrow()));
  EXPECT_THAT(NamesOf(graph, "cast"), ElementsAre("reshape/bf16", "up/bf16", "matmul/bf16", "down/bf16"));
  EXPECT_EQ(ProducerOf(graph, NodeOf(graph, "matmul"), 1).name, "up/bf16");
  EXPECT_EQ(TypeOf(graph, "matmul"), DType::kFloat32) << "a sum is rounded where it is read";
  EXPECT_EQ(TypeOf(graph, "relu"), DType::kBFloat16);
  const Node& loss = NodeOf(graph, "softmax_cross_entropy");
  EXPECT_EQ(ProducerOf(graph, loss, 0).name, "matmul_2") << "it reads the sum that was never rounded";
  EXPECT_EQ(TypeOf(graph, "up"), DType::kFloat32) << "a variable is the master";
}

TEST(MixedPrecisionTest, ParametersOfNormsAndBiasesStayFull) {
  GraphBuilder b(Ops(), "norm");
  const Tensor x = MatMul(ReadSamples(b, 4).rows, Weight(b, "w", {16, 8}));
  b.SetLoss(ReduceMean(BiasAdd(nn::LayerNorm(x, "norm"), Weight(b, "b", {8}))));
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  ASSERT_OK_AND_ASSIGN(graph, RunUpTo("mixed-precision", std::move(graph), Narrow()));
  const Node& norm = NodeOf(graph, "norm/layer_norm");
  EXPECT_EQ(ProducerOf(graph, norm, 0).name, "matmul/bf16");
  EXPECT_EQ(ProducerOf(graph, norm, 1).op, "variable");
  EXPECT_EQ(TypeOf(graph, "norm/layer_norm"), DType::kBFloat16);
  EXPECT_EQ(ProducerOf(graph, NodeOf(graph, "bias_add"), 1).op, "variable");
  EXPECT_EQ(TypeOf(graph, "reduce_mean"), DType::kFloat32);
}

TEST(MixedPrecisionTest, ASoftmaxIsNarrowOnlyWhereItsAuthorCasts) {
  GraphBuilder b(Ops(), "scores");
  const Tensor x = MatMul(ReadSamples(b, 4).rows, Weight(b, "w", {16, 8}));
  Fetch(Softmax(x), "full");
  Fetch(Softmax(Cast(x, DType::kBFloat16)), "kept");
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  ASSERT_OK_AND_ASSIGN(graph, RunUpTo("mixed-precision", std::move(graph), Narrow()));
  EXPECT_EQ(ProducerOf(graph, NodeOf(graph, "softmax"), 0).name, "matmul") << "it reads the sum that was never rounded";
  EXPECT_EQ(TypeOf(graph, "softmax"), DType::kFloat32);
  EXPECT_EQ(ProducerOf(graph, NodeOf(graph, "softmax_2"), 0).name, "cast") << "and this one what its author rounded";
  EXPECT_EQ(TypeOf(graph, "softmax_2"), DType::kBFloat16);
}

// So the product is made narrow; its statistics are sums in f32.
TEST(MixedPrecisionTest, ABatchNormReadsANarrowProduct) {
  GraphBuilder b(Ops(), "norm");
  const Tensor x = MatMul(ReadSamples(b, 4).rows, Weight(b, "w", {16, 8}));
  Fetch(ReduceMean(nn::BatchNorm(x, "norm", {.training = true})), "y");
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  ASSERT_OK_AND_ASSIGN(graph, RunUpTo("narrow-products", std::move(graph), Narrow()));
  EXPECT_EQ(TypeOf(graph, "matmul"), DType::kBFloat16);
  EXPECT_EQ(TypeOf(graph, "norm/batch_norm"), DType::kBFloat16);
  for (const char* name : {"norm/channel_mean", "norm/channel_variance"}) {
    EXPECT_EQ(ProducerOf(graph, NodeOf(graph, name), 0).name, "matmul");
    EXPECT_EQ(TypeOf(graph, name), DType::kFloat32);
  }
  EXPECT_EQ(ProducerOf(graph, NodeOf(graph, "norm/batch_norm"), 1).op, "variable");
}

TEST(MixedPrecisionTest, AScopeComputesAsItsAuthorAsks) {
  GraphBuilder b(Ops(), "scopes");
  Tensor x = MatMul(ReadSamples(b, 4).rows, Weight(b, "u", {16, 16}));
  {
    const GraphBuilder::PrecisionScope full(b, DType::kFloat32);
    x = Tanh(MatMul(x, Weight(b, "v", {16, 16})));
  }
  Fetch(ReduceMean(MatMul(x, Weight(b, "w", {16, 16}))), "y");
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  ASSERT_OK_AND_ASSIGN(graph, RunUpTo("mixed-precision", std::move(graph), Narrow()));
  EXPECT_THAT(NamesOf(graph, "cast"), ElementsAre("reshape/bf16", "u/bf16", "tanh/bf16", "w/bf16"))
      << "between two products of full precision nothing is rounded";
  EXPECT_EQ(ProducerOf(graph, NodeOf(graph, "matmul_2"), 0).name, "matmul");
}

TEST(MixedPrecisionTest, AScopeIsNarrowInAJobThatIsNot) {
  GraphBuilder b(Ops(), "scopes");
  Tensor x = ReadSamples(b, 4).rows;
  {
    const GraphBuilder::PrecisionScope narrow(b, DType::kBFloat16);
    x = MatMul(x, Weight(b, "u", {16, 16}));
  }
  Fetch(Relu(x), "y");
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  ASSERT_OK_AND_ASSIGN(graph, RunUpTo("remove-dead-code", std::move(graph), Options({})));
  EXPECT_THAT(NamesOf(graph, "cast"), ElementsAre("reshape/bf16", "u/bf16"));
  EXPECT_EQ(TypeOf(graph, "relu"), DType::kFloat32);
}

TEST(MixedPrecisionTest, GradientsOfWeightsAreNeverRounded) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("autodiff", Mlp(), Narrow()));
  for (const char* name : {"up", "down"}) {
    const Node& sum = NodeOf(graph, absl::StrCat(name, "/grad"));
    EXPECT_EQ(sum.op, "accumulate");
    EXPECT_EQ(graph.value(sum.outputs[0]).type.dtype, DType::kFloat32);
    const Node& product = ProducerOf(graph, sum, 0);
    EXPECT_EQ(product.op, "matmul_wgrad");
    EXPECT_EQ(graph.value(product.inputs[0]).type.dtype, DType::kBFloat16);
    EXPECT_EQ(graph.value(product.inputs[1]).type.dtype, DType::kBFloat16);
  }
}

TEST(MixedPrecisionTest, WeightsAreCastOncePerStepAndBeforeTheyAreGathered) {
  CompileOptions options = Narrow({{"dp", 2}}, 4);
  options.variable_bytes_per_device = 3 * (16 * 32 + 32 * 4) * 4 / 2 + 64;  // weights and AdamW's state in halves
  ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("select-sbp", Mlp(), options));
  for (const char* name : {"up", "down"}) {
    const Node& cast = NodeOf(graph, absl::StrCat(name, "/bf16"));
    EXPECT_EQ(cast.rate, Rate::kStep);
    EXPECT_TRUE(graph.value(cast.inputs[0]).dist->sbp[0].is_split());
    EXPECT_TRUE(graph.value(cast.outputs[0]).dist->sbp[0].is_split()) << "what travels is narrow";
  }
}

TEST(NarrowProductsTest, ASumIsMadeNarrowWhereOnlyItsRoundingIsRead) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("narrow-products", Mlp(), Narrow()));
  EXPECT_EQ(TypeOf(graph, "matmul"), DType::kBFloat16);
  EXPECT_EQ(ProducerOf(graph, NodeOf(graph, "relu"), 0).name, "matmul");
  EXPECT_EQ(TypeOf(graph, "matmul_2"), DType::kFloat32) << "the loss reads the sum";
  EXPECT_EQ(TypeOf(graph, "matmul_2/matmul"), DType::kBFloat16) << "the gradient of what relu gave";
}

TEST(NarrowProductsTest, AddendsAreAddedInFullPrecisionBeforeTheyAreRounded) {
  const SbpHint columns = {{"tp", Sbp::Split(1)}}, rows = {{"tp", Sbp::Split(0)}};
  GraphBuilder b(Ops(), "pair");
  const Tensor x = MatMul(ReadSamples(b, 8, {}).rows, Weight(b, "up", {16, 64}, columns));
  Fetch(ReduceMean(Relu(MatMul(Relu(x), Weight(b, "down", {64, 16}, rows)))), "y");
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  ASSERT_OK_AND_ASSIGN(graph, RunUpTo("narrow-products", std::move(graph), Narrow({{"tp", 2}})));
  EXPECT_EQ(TypeOf(graph, "matmul"), DType::kBFloat16);
  EXPECT_EQ(TypeOf(graph, "matmul_2"), DType::kFloat32);
  EXPECT_EQ(SbpOf(graph, "matmul_2"), "(P)");
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    for (const ValueId value : node.outputs) {
      for (const Sbp& sbp : graph.value(value).dist->sbp) {
        EXPECT_FALSE(sbp.is_partial() && IsNarrow(graph.value(value).type.dtype)) << Where(node);
      }
    }
  }
}

TEST(NarrowProductsTest, AJobMayAskForAddendsThatAreRounded) {
  const SbpHint columns = {{"tp", Sbp::Split(1)}}, rows = {{"tp", Sbp::Split(0)}};
  CompileOptions options = Narrow({{"tp", 2}});
  options.precision.reduce = DType::kBFloat16;
  GraphBuilder b(Ops(), "pair");
  const Tensor x = MatMul(ReadSamples(b, 8, {}).rows, Weight(b, "up", {16, 64}, columns));
  Fetch(ReduceMean(Relu(MatMul(Relu(x), Weight(b, "down", {64, 16}, rows)))), "y");
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  ASSERT_OK_AND_ASSIGN(graph, RunUpTo("narrow-products", std::move(graph), options));
  EXPECT_EQ(TypeOf(graph, "matmul_2"), DType::kBFloat16);
  EXPECT_EQ(SbpOf(graph, "matmul_2"), "(P)");
}

TEST(NarrowProductsTest, GradientsAreReducedAsTheJobAsks) {
  for (const DType reduce : {DType::kFloat32, DType::kBFloat16}) {
    CompileOptions options = Narrow({{"dp", 2}}, 2);
    options.precision.reduce = reduce;
    ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("insert-boxing", Mlp(1024), options));
    const std::vector<std::vector<NodeId>> readers = graph.Consumers();
    int reductions = 0;
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      const Node& node = graph.node(id);
      if (node.op != "boxing" || node.role != Role::kReduction) continue;
      const NdSbp& from = graph.value(node.inputs[0]).dist->sbp;
      if (from.empty() || !from[0].is_partial()) continue;
      EXPECT_EQ(graph.value(node.inputs[0]).type.dtype, reduce) << node.name;
      for (const NodeId reader : readers[node.outputs[0]]) {  // or it would travel alone
        EXPECT_TRUE(graph.node(reader).op == "boxing" || IsUpdate(graph.node(reader))) << graph.node(reader).name;
      }
      ++reductions;
    }
    EXPECT_EQ(reductions, 2) << Name(reduce);
  }
}

// Rounded where they are reduced, added up over micro-batches in the type that is asked for.
TEST(NarrowProductsTest, GradientsAreAccumulatedAsTheJobAsks) {
  for (const int stage : {0, 2}) {
    for (const DType accumulate : {DType::kFloat32, DType::kBFloat16}) {
      SCOPED_TRACE(absl::StrCat(stage, " ", Name(accumulate)));
      CompileOptions options = Narrow({{"dp", 2}}, 2);
      options.precision.reduce = DType::kBFloat16;
      options.precision.accumulate = accumulate;
      if (stage > 0) options.zero = ZeroOptions{.stage = stage, .axis = "dp"};
      ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("insert-boxing", Mlp(1024), options));
      int sums = 0;
      for (NodeId id = 0; id < graph.num_nodes(); ++id) {
        const Node& node = graph.node(id);
        if (node.op == "boxing" && node.role == Role::kReduction && graph.value(node.inputs[0]).type.shape.rank() > 1) {
          EXPECT_EQ(graph.value(node.inputs[0]).type.dtype, DType::kBFloat16) << node.name;
        }
        if (node.op != "accumulate" || node.variable < 0) continue;
        const Value& sum = graph.value(node.outputs[0]);
        EXPECT_EQ(sum.type.dtype, accumulate);
        EXPECT_EQ(sum.dist->sbp[0], stage > 0 ? Sbp::Split(0) : Sbp::Partial());
        ++sums;
      }
      EXPECT_EQ(sums, 2);
    }
  }
}

// Whoever reads it, a loss is what autodiff and the user know it as.
TEST(NarrowProductsTest, ALossKeepsItsType) {
  GraphBuilder b(Ops(), "loss");
  const Tensor x = ReduceMean(Relu(MatMul(ReadSamples(b, 8).rows, Weight(b, "w", {16, 16}))));
  const Tensor loss = b.Op1("add_n", {x, x}, {}, std::source_location::current(), "sum");
  b.SetLoss(loss);
  Fetch(Cast(Cast(loss, DType::kBFloat16), DType::kFloat32), "rounded");
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  ASSERT_OK_AND_ASSIGN(graph, RunUpTo("narrow-products", std::move(graph), Options({})));
  EXPECT_EQ(TypeOf(graph, "sum"), DType::kFloat32);
}

}  // namespace
}  // namespace oneflow::testing
