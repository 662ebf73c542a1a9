// What selection decides for whole models, seen in the boxed graph that RunPasses makes of them.
#include "compiler/select/select_sbp.h"

#include "absl/strings/match.h"
#include "oneflow_core/models/gpt.h"
#include "test/compiler/passes/testing.h"

namespace oneflow::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

absl::StatusOr<Graph> Boxed(Graph graph, const CompileOptions& options) {
  VariableDists variables;
  return RunPasses(std::move(graph), options, Ops(), variables);
}

Graph Gpt(int64_t layers, int64_t batch) {
  const GptConfig config{.vocabulary = 256, .layers = layers, .width = 64, .heads = 4, .context = 64, .dropout = 0.1};
  return std::move((*GptProgram(config, {.path = "text"}, {.train = batch}, std::nullopt, Ops()))[0]);
}

// Boxings of a phase whose values are activations (rank 3) on one placement, by what they change along the axis at
// `index`.
int CountActivationBoxings(const Graph& graph, absl::string_view prefix, Phase phase, size_t index) {
  int count = 0;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (node.op != "boxing" || node.phase != phase) continue;
    const Value& from = graph.value(node.inputs[0]);
    const Value& to = graph.value(node.outputs[0]);
    if (to.type.shape.rank() != 3 || !absl::StrContains(node.name, prefix)) continue;
    if (from.dist->sbp.size() == to.dist->sbp.size() && from.dist->sbp[index] != to.dist->sbp[index]) ++count;
  }
  return count;
}

TEST(SelectSbpTest, SplitDataMakesDataParallelism) {
  for (const int dp : {2, 3}) {  // 8 rows on 3 ranks are 3, 3 and 2
    ASSERT_OK_AND_ASSIGN(const Graph graph, Boxed(Mlp(8), Options({{"dp", dp}})));
    for (const char* name : {"matmul", "relu", "matmul_2/matmul", "read_data"})
      EXPECT_EQ(SbpOf(graph, name), "(S(0))") << name;
    for (const char* name : {"up", "down", "up/adam_m"}) EXPECT_EQ(SbpOf(graph, name), "(B)") << name;
    EXPECT_EQ(SbpOf(graph, "matmul/matmul_wgrad"), "(P)");
    for (const std::string& boxing : NamesOf(graph, "boxing")) {
      const bool expected = absl::StrContains(boxing, "matmul_wgrad") || absl::StrContains(boxing, "/()@0");
      EXPECT_TRUE(expected) << boxing << ": only gradients and fetches travel";
    }
  }
}

TEST(SelectSbpTest, ColumnThenRowSplitWeightsNeedOneReduction) {
  const Graph mlp = Mlp(64, 256, {{"tp", Sbp::Split(1)}}, {{"tp", Sbp::Split(0)}});
  ASSERT_OK_AND_ASSIGN(const Graph graph, Boxed(mlp, Options({{"tp", 2}})));
  EXPECT_EQ(SbpOf(graph, "matmul"), "(S(1))");
  EXPECT_EQ(SbpOf(graph, "relu"), "(S(1))");
  EXPECT_EQ(SbpOf(graph, "matmul_2"), "(P)");
  EXPECT_EQ(SbpOf(graph, "up/adam_v"), "(S(1))");
  EXPECT_EQ(SbpOf(graph, "matmul/matmul_wgrad"), "(S(1))");
}

TEST(SelectSbpTest, VariablesAreNotMovedForTheirReaders) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, Boxed(Gpt(2, 8), Options({{"dp", 2}, {"tp", 2}})));
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (node.op == "boxing") {
      EXPECT_NE(ProducerOf(graph, node, 0).op, "variable") << node.name;
    }
  }
}

TEST(SelectSbpTest, AnnotatedStateIsGatheredForItsReaders) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, Boxed(Mlp(8, 32, {{"dp", Sbp::Split(0)}}), Options({{"dp", 2}})));
  EXPECT_EQ(SbpOf(graph, "up"), "(S(0))");
  EXPECT_EQ(SbpOf(graph, "up/adam_m"), "(S(0))");
  EXPECT_EQ(SbpOf(graph, "matmul"), "(S(0))");
  EXPECT_EQ(SbpOf(graph, "box/up/(B)"), "(B)");
}

TEST(SelectSbpTest, GptGetsMegatronsLayout) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, Boxed(Gpt(2, 8), Options({{"dp", 2}, {"tp", 2}})));
  for (const char* name : {"h0/attn/q/matmul", "h0/attn/attention", "h1/mlp/gelu"})
    EXPECT_EQ(SbpOf(graph, name), "(S(0),S(2))");
  for (const char* name : {"h0/attn/o/matmul", "h1/mlp/down/matmul"}) EXPECT_EQ(SbpOf(graph, name), "(S(0),P)");
  EXPECT_EQ(SbpOf(graph, "h0/attn/q/weight"), "(B,S(1))");
  EXPECT_EQ(SbpOf(graph, "h0/ln1/weight"), "(B,B)");
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {  // activations stay split over samples
    const Node& node = graph.node(id);
    if (node.phase != Phase::kForward || node.rate != Rate::kStep || node.outputs.empty()) continue;
    const Value& value = graph.value(node.outputs[0]);
    if (value.type.shape.rank() == 3) {
      EXPECT_EQ(value.dist->sbp[0], Sbp::Split(0)) << node.name;
    }
  }
}

TEST(SelectSbpTest, ABlockHasTwoReductionsForwardAndTwoBackward) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, Boxed(Gpt(4, 8), Options({{"dp", 2}, {"tp", 2}})));
  for (const char* block : {"h1/", "h2/"}) {  // a reduction is P -> S -> B: two boxings
    EXPECT_LE(CountActivationBoxings(graph, block, Phase::kForward, 1), 4) << block;
    EXPECT_LE(CountActivationBoxings(graph, block, Phase::kBackward, 1), 4) << block;
  }
}

TEST(SelectSbpTest, GradientsAreReducedOncePerStepAndNotPerMicroBatch) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, Boxed(Mlp(8), Options({{"pp", 2}, {"dp", 2}}, 4)));
  EXPECT_EQ(SbpOf(graph, "up/grad"), "(P)");
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (node.op == "boxing" && graph.value(node.inputs[0]).dist->sbp == NdSbp{Sbp::Partial()}) {
      EXPECT_EQ(node.rate, Rate::kStep) << node.name;
    }
  }
}

TEST(SelectSbpTest, WithoutAnnotationsReplicatingIsNotTheAnswer) {
  GraphBuilder b(Ops(), "free");
  const Tensor rows = ReadSamples(b, 4096, {}).rows;
  b.SetLoss(ReduceMean(Relu(MatMul(rows, Weight(b, "w", {16, 16})))));
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  ASSERT_OK_AND_ASSIGN(graph, Boxed(std::move(graph), Options({{"x", 4}})));
  EXPECT_NE(SbpOf(graph, "matmul"), "(B)");
  EXPECT_NE(SbpOf(graph, "relu"), "(B)");
}

TEST(SelectSbpTest, AWrongAnnotationNamesOpLineAndSignatures) {
  GraphBuilder b(Ops(), "wrong");
  const Samples samples = ReadSamples(b, 8);
  const Tensor logits = MatMul(samples.rows, Weight(b, "w", {16, 4}, {{"tp", Sbp::Partial()}}));
  b.SetLoss(ReduceMean(SoftmaxCrossEntropy(logits, samples.labels)));
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  EXPECT_THAT(Boxed(std::move(graph), Options({{"tp", 2}})).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("pass 'select-sbp'"), HasSubstr("node 'w'"), HasSubstr("asked for P"),
                             HasSubstr("->S(0) | ->S(1) | ->B"))));
}

TEST(SelectSbpTest, LaterGraphsReadVariablesWhereTheyLie) {
  const CompileOptions options = Options({{"pp", 2}, {"dp", 2}, {"tp", 2}});
  const GptConfig config{.layers = 2, .width = 64, .heads = 4, .context = 32};
  ASSERT_OK_AND_ASSIGN(std::vector<Graph> program,
                       GptProgram(config, {.path = "text"}, {.train = 8, .evaluate = 8}, GptGeneration{}, Ops()));
  VariableDists variables;
  for (Graph& graph : program) {
    const VariableDists before = variables;
    ASSERT_OK_AND_ASSIGN(graph, RunPasses(std::move(graph), options, Ops(), variables));
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      const Node& node = graph.node(id);
      if (node.op != "variable") continue;
      EXPECT_EQ(*graph.value(node.outputs[0]).dist, variables.at(node.name));
      if (before.count(node.name) > 0) {
        EXPECT_EQ(variables.at(node.name), before.at(node.name));
      }
    }
    // Weights do not travel between stages, step after step, for any of the graphs.
    for (const std::string& name : NamesOf(graph, "boxing")) {
      const Node& boxing = NodeOf(graph, name);
      if (graph.value(boxing.inputs[0]).type.shape.rank() == 0) continue;  // counters do
      EXPECT_NE(ProducerOf(graph, boxing, 0).op, "variable") << graph.name() << ": " << name;
    }
  }
}

}  // namespace
}  // namespace oneflow::testing
