// What selection decides for whole models, seen in the boxed graph that RunPasses makes of them.
#include "compiler/select/select_sbp.h"

#include <map>

#include "absl/strings/match.h"
#include "oneflow_core/models/gpt.h"
#include "sbp/slices.h"
#include "test/compiler/passes/testing.h"
#include "test/support/names.h"

namespace oneflow::testing {
namespace {

absl::StatusOr<Graph> Boxed(Graph graph, const CompileOptions& options) {
  VariableDists variables;
  return RunPasses(std::move(graph), options, Ops(), variables);
}

Graph Gpt(int64_t layers, int64_t batch) {
  const GptConfig config{.vocabulary = 256, .layers = layers, .width = 64, .heads = 4, .context = 64, .dropout = 0.1};
  return std::move((*GptProgram(config, {.path = "text"}, {.train = batch}, std::nullopt, Ops()))[0]);
}

// Boxings of a part of the step whose values are activations (rank 3) on one placement, by what they change along the
// axis at `index`.
int CountActivationBoxings(const Graph& graph, absl::string_view prefix, StepPart part, size_t index) {
  int count = 0;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (node.op != "boxing" || PartOf(node.role) != part) continue;
    const Value& from = graph.value(node.inputs[0]);
    const Value& to = graph.value(node.outputs[0]);
    if (to.type.shape.rank() != 3 || !absl::StrContains(node.name, prefix)) continue;
    if (from.dist->sbp.size() == to.dist->sbp.size() && from.dist->sbp[index] != to.dist->sbp[index]) ++count;
  }
  return count;
}

TEST(SelectSbpTest, SplitDataMakesDataParallelism) {
  for (const int dp : {2, 3}) {  // 8 rows on 3 ranks are 3, 3 and 2
    CompileOptions options = Options({{"dp", dp}});
    options.fuse = false;  // the head and its loss would be one
    ASSERT_OK_AND_ASSIGN(const Graph graph, Boxed(Mlp(8), options));
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
  for (const char* name : {"h0/attn/q/bias_add", "h0/attn/attention", "h1/mlp/gelu"})
    EXPECT_EQ(SbpOf(graph, name), "(S(0),S(2))");
  for (const char* name : {"h0/attn/o/matmul", "h1/mlp/down/matmul"}) EXPECT_EQ(SbpOf(graph, name), "(S(0),P)");
  EXPECT_EQ(SbpOf(graph, "h0/attn/q/weight"), "(B,S(1))");
  EXPECT_EQ(SbpOf(graph, "h0/ln1/weight"), "(B,B)");
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {  // activations stay split over samples
    const Node& node = graph.node(id);
    if (!IsForward(node) || node.rate != Rate::kStep || node.outputs.empty()) continue;
    const Value& value = graph.value(node.outputs[0]);
    if (value.type.shape.rank() == 3) {
      EXPECT_EQ(value.dist->sbp[0], Sbp::Split(0)) << node.name;
    }
  }
}

TEST(SelectSbpTest, ABlockHasTwoReductionsForwardAndTwoBackward) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, Boxed(Gpt(4, 8), Options({{"dp", 2}, {"tp", 2}})));
  for (const char* block : {"h1/", "h2/"}) {  // a reduction is P -> S -> B: two boxings
    EXPECT_LE(CountActivationBoxings(graph, block, StepPart::kForward, 1), 4) << block;
    EXPECT_LE(CountActivationBoxings(graph, block, StepPart::kBackward, 1), 4) << block;
  }
}

// The 5,000-node graph of a step, as select-sbp sees it, and what it takes to lay it out on three axes of which one is
// not annotated at all. (`compiler_test --gtest_filter='*OfThousands*'` prints how long that takes.)
absl::StatusOr<Selection> SelectOnThreeAxes(int64_t layers, int* num_nodes) {
  const CompileOptions options = Options({{"dp", 2}, {"tp", 2}, {"sp", 2}});
  OF_ASSIGN_OR_RETURN(const Graph graph, RunUpTo("assign-rates", Gpt(layers, 8), options));
  *num_nodes = graph.num_nodes();
  return SelectSbp(graph, Ops(), JobTopology(options), {}, {});
}

TEST(SelectSbpTest, AGraphOfThousandsOfNodesIsSolvedFromThePricesOfAFewLayers) {
  int few_nodes = 0, many_nodes = 0;
  ASSERT_OK_AND_ASSIGN(const Selection few, SelectOnThreeAxes(3, &few_nodes));
  ASSERT_OK_AND_ASSIGN(const Selection many, SelectOnThreeAxes(40, &many_nodes));
  EXPECT_GE(many_nodes, 5000);
  EXPECT_LE(many.num_prices, few.num_prices * 1.1);
  EXPECT_LE(many.num_prices, 8000);  // of some fifty types, each with up to 25 dists
  EXPECT_LE(many.seconds, few.seconds * many_nodes / few_nodes) << "as good for many layers as for few";
  EXPECT_GT(many.core_units, 1000) << "too large for tables";
  EXPECT_TRUE(many.exact);
  EXPECT_EQ(many.lower_bound, many.seconds);
}

TEST(SelectSbpTest, OnTwoAxesAModelIsSolvedExactly) {
  for (const int micro_batches : {1, 4}) {
    const CompileOptions options = Options({{"pp", micro_batches > 1 ? 2 : 1}, {"dp", 2}, {"tp", 2}}, micro_batches);
    ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("assign-rates", Gpt(4, 8), options));
    ASSERT_OK_AND_ASSIGN(const Selection selection,
                         SelectSbp(graph, Ops(), JobTopology(options), {}, {.micro_batches = micro_batches}));
    EXPECT_TRUE(selection.exact);
    EXPECT_EQ(selection.core_units, 0);
    EXPECT_EQ(selection.lower_bound, selection.seconds);
  }
}

// A GPT of which little is said: samples over dp, and of each pair of layers the first is split by columns over tp.
Graph LittleAnnotatedGpt() {
  const GptConfig config{.vocabulary = 256, .layers = 3, .width = 768, .heads = 12, .context = 256};
  Graph graph = std::move((*GptProgram(config, {.path = "text"}, {.train = 8}, std::nullopt, Ops()))[0]);
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    Value& value = graph.value(id);
    const Node& producer = graph.node(value.producer);
    if (value.hint.empty()) continue;
    if (producer.op != "variable") {
      value.hint = {{"dp", Sbp::Split(0)}, {"tp", Sbp::Broadcast()}};
    } else if (absl::EndsWith(producer.name, "weight") && value.hint == SbpHint{{"tp", Sbp::Split(1)}}) {
      continue;  // q, k, v, up
    } else {
      value.hint.clear();  // their biases, o, down
    }
  }
  return graph;
}

// Boxings of a part of the step within a block that begin with an addend along the axis at `index`.
int CountReductions(const Graph& graph, absl::string_view block, StepPart part, size_t index) {
  int count = 0;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (node.op != "boxing" || PartOf(node.role) != part || !absl::StrContains(node.name, block)) continue;
    const Value& from = graph.value(node.inputs[0]);
    if (from.type.shape.rank() == 3 && from.dist->sbp[index].is_partial()) ++count;
  }
  return count;
}

TEST(SelectSbpTest, FromOneWeightOfEachPairFollowsMegatronsLayout) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, Boxed(LittleAnnotatedGpt(), Options({{"dp", 2}, {"tp", 2}})));
  for (const char* block : {"h0/", "h1/"}) {
    for (const StepPart part : {StepPart::kForward, StepPart::kBackward}) {
      EXPECT_EQ(CountReductions(graph, block, part, 1), 2) << block << " " << Name(part);
      EXPECT_LE(CountActivationBoxings(graph, block, part, 1), 4) << block << " " << Name(part);
    }
  }
  EXPECT_EQ(SbpOf(graph, "h1/attn/o/weight"), "(B,S(0))");
  EXPECT_EQ(SbpOf(graph, "h1/mlp/down/weight"), "(B,S(0))");
  EXPECT_EQ(SbpOf(graph, "h1/mlp/up/bias"), "(B,S(0))");
}

TEST(SelectSbpTest, AMemoryLimitSplitsVariablesWhereThatCostsLeast) {
  const CompileOptions options = Options({{"dp", 2}});
  ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("assign-rates", Mlp(8, 64), options));
  // up 16x64 and down 64x4 with two states each: 15,360 bytes, and two counters or so.
  const auto select = [&](int64_t limit) {
    return SelectSbp(graph, Ops(), JobTopology(options), {}, {.variable_limit_bytes = limit});
  };
  const auto layout = [&](const Selection& selection, absl::string_view name) {
    return ToString(selection.layouts[graph.FindNode(name)].outputs[0]);
  };
  ASSERT_OK_AND_ASSIGN(const Selection ample, select(20000));
  for (const char* name : {"up", "down", "up/adam_m"}) EXPECT_EQ(layout(ample, name), "(B)") << name;
  ASSERT_OK_AND_ASSIGN(const Selection tight, select(10000));
  EXPECT_EQ(layout(tight, "down"), "(B)") << "halving the larger one is enough";
  EXPECT_NE(layout(tight, "up"), "(B)");
  EXPECT_EQ(layout(tight, "up/adam_m"), layout(tight, "up"));
  EXPECT_GT(tight.seconds, ample.seconds);
  EXPECT_FALSE(tight.exact);
  EXPECT_THAT(select(5000).status(), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("the limit is 5000")));
}

// What memory_demand.h counts, counted again in the graph that was laid out on one place.
int64_t BytesHeld(const Graph& graph) {
  const auto is_variable = [&](NodeId id) { return Ops().Is(graph.node(id).op, OpKind::kVariable); };
  const auto is_boxing = [&](NodeId id) { return Ops().Is(graph.node(id).op, OpKind::kBoxing); };
  std::vector<bool> held(graph.num_values(), false);
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (is_variable(id) || Ops().Is(node.op, OpKind::kAccumulate)) held[node.outputs[0]] = true;
    if (is_boxing(id) && is_variable(graph.value(node.inputs[0]).producer)) held[node.outputs[0]] = true;
    if (!IsBackward(node) || is_boxing(id)) continue;
    for (ValueId input : node.inputs) {
      if (IsForward(graph.node(graph.value(input).producer))) held[input] = true;
    }
  }
  int64_t bytes = 0;
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    const Value& value = graph.value(id);
    if (!held[id]) continue;
    bytes += ShardRegion(value.type.shape, *value.dist, 0).count() * static_cast<int64_t>(SizeOf(value.type.dtype));
  }
  return bytes;
}

TEST(SelectSbpTest, AMemoryLimitCountsActivationsAndGatheredCopies) {
  for (const int micro_batches : {1, 2}) {
    SCOPED_TRACE(micro_batches);
    CompileOptions options = Options({{"dp", 2}, {"tp", 2}}, micro_batches);
    ASSERT_OK_AND_ASSIGN(const Graph free, RunUpTo("select-sbp", Gpt(2, 8), options));
    int64_t least = 0;
    for (const double part : {1.0, 0.9, 0.8}) {
      SCOPED_TRACE(part);
      options.memory_bytes_per_device = static_cast<int64_t>(part * static_cast<double>(BytesHeld(free)));
      ASSERT_OK_AND_ASSIGN(const Graph within, RunUpTo("select-sbp", Gpt(2, 8), options));
      least = BytesHeld(within);
      EXPECT_LE(least, options.memory_bytes_per_device);
      if (part == 1.0) {
        EXPECT_EQ(least, BytesHeld(free)) << "both count the same: nothing has to change";
      }
    }
    EXPECT_GT(least, 0);
    options.memory_bytes_per_device = 1000;
    EXPECT_THAT(RunUpTo("select-sbp", Gpt(2, 8), options).status(),
                StatusIs(absl::StatusCode::kResourceExhausted,
                         AllOf(HasSubstr("are needed on one rank however tensors lie (variables "),
                               HasSubstr(", activations "), HasSubstr("but the limit is 1000"))));
  }
}

// On one rank there is one layout, so that an error says what is counted of each kind.
TEST(SelectSbpTest, WhatIsComputedAgainIsNotCounted) {
  const auto counted = [](bool again) {
    CompileOptions options = Options({}, /*micro_batches=*/2);
    options.memory_bytes_per_device = 1000;
    if (again) options.recompute.what = "layers";
    const std::string message(RunUpTo("select-sbp", Gpt(2, 8), options).status().message());
    std::map<std::string, int64_t> bytes;
    for (const std::string kind : {"variables", "sums", "activations"}) {
      const size_t at = message.find(kind + " ");
      EXPECT_NE(at, std::string::npos) << message;
      if (at != std::string::npos) bytes[kind] = std::stoll(message.substr(at + kind.size() + 1));
    }
    return bytes;
  };
  const auto held = [](const char* pass, bool again) {
    CompileOptions options = Options({}, /*micro_batches=*/2);
    if (again) options.recompute.what = "layers";
    const absl::StatusOr<Graph> graph = RunUpTo(pass, Gpt(2, 8), options);
    EXPECT_OK(graph.status());
    return graph.ok() ? BytesHeld(*graph) : 0;
  };
  std::map<std::string, int64_t> all = counted(false), again = counted(true);
  EXPECT_EQ(all["variables"] + all["sums"] + all["activations"], held("select-sbp", false));
  EXPECT_EQ(again["variables"], all["variables"]);
  EXPECT_EQ(again["sums"], all["sums"]);
  EXPECT_LT(again["activations"], all["activations"] / 2);
  const int64_t kept = held("recompute", true) - again["variables"] - again["sums"];
  EXPECT_NEAR(static_cast<double>(again["activations"]), static_cast<double>(kept), 0.1 * static_cast<double>(kept));
}

TEST(SelectSbpTest, AnAnnotationHoldsForTheAxesThatItNames) {
  const Graph mlp = Mlp(4096, 1024, {{"tp", Sbp::Split(1)}}, {{"tp", Sbp::Split(0)}});
  ASSERT_OK_AND_ASSIGN(const Graph graph, Boxed(mlp, Options({{"x", 2}, {"tp", 2}})));
  EXPECT_EQ(NodeOf(graph, "up").placement->num_axes(), 2);
  const NdSbp& up = graph.value(NodeOf(graph, "up").outputs[0]).dist->sbp;
  EXPECT_EQ(up[1], Sbp::Split(1));
  const NdSbp& product = graph.value(NodeOf(graph, "matmul").outputs[0]).dist->sbp;
  EXPECT_TRUE(product[0].is_split()) << "axis x is free, and dividing the work is cheapest";
}

TEST(SelectSbpTest, SaysWhereNotAllLayoutsWereConsidered) {
  const CompileOptions options = Options({{"x", 2}, {"y", 2}, {"z", 2}});
  const auto notes = [&](int rank) {
    GraphBuilder b(Ops(), "train");
    for (int i = 0; i < 3; ++i) Constant(b, {DType::kFloat32, Shape(std::vector<int64_t>(rank, 8))}, 1);
    Graph graph = *b.Finish();
    for (NodeId id = 0; id < graph.num_nodes(); ++id) graph.node(id).placement = *options.mesh.Place({});
    return SelectSbp(graph, Ops(), JobTopology(options), {}, {})->notes;
  };
  EXPECT_THAT(notes(3), IsEmpty());
  // S of 7 dimensions and B on each of three axes.
  EXPECT_THAT(notes(7), ElementsAre(AllOf(HasSubstr("node 'constant' (constant, "),
                                          HasSubstr(" and 2 like it: 343 of 512 layouts were considered"))));
}

TEST(SelectSbpTest, ExplainsWhatOtherLayoutsWouldCost) {
  const CompileOptions options = Options({{"tp", 2}});
  ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("assign-rates", Mlp(64, 256, {{"tp", Sbp::Split(1)}}), options));
  ASSERT_OK_AND_ASSIGN(const Selection selection, SelectSbp(graph, Ops(), JobTopology(options), {}, {}));
  const NodeId relu = graph.FindNode("relu");
  ASSERT_OK_AND_ASSIGN(const std::vector<LayoutPrice> prices,
                       ExplainSelection(graph, Ops(), JobTopology(options), {}, {}, relu));
  ASSERT_GE(prices.size(), 3u);
  EXPECT_TRUE(selection.exact);
  EXPECT_EQ(prices[0].layout, selection.layouts[relu]);
  EXPECT_EQ(prices[0].seconds, selection.seconds);
  for (size_t i = 1; i < prices.size(); ++i) EXPECT_GE(prices[i].seconds, prices[i - 1].seconds);
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

// Two variables that one node overwrites cannot lie differently; the wish of the greater number yields, the other
// holds.
TEST(SelectSbpTest, OfVariablesThatAreOverwrittenTogetherTheWeakerWishYields) {
  const auto select = [](int of_w, int of_momentum) -> absl::StatusOr<std::string> {
    GraphBuilder b(Ops(), "update");
    const Tensor w = Weight(b, "w", {16, 4}, {{"tp", Sbp::Split(0), of_w}});
    const Tensor momentum = Weight(b, "momentum", {16, 4}, {{"tp", Sbp::Split(1), of_momentum}});
    const Tensor rate = Constant(b, {DType::kFloat32, {}}, 0.1);
    b.Op("sgd_update", {w, momentum, Constant(b, {DType::kFloat32, {16, 4}}, 0.5), rate, rate}, {{"momentum", 0.9}});
    OF_ASSIGN_OR_RETURN(Graph graph, b.Finish());
    OF_ASSIGN_OR_RETURN(graph, Boxed(std::move(graph), Options({{"tp", 2}})));
    return SbpOf(graph, "w") + SbpOf(graph, "momentum");
  };
  ASSERT_OK_AND_ASSIGN(const std::string weak_momentum, select(0, 1));
  EXPECT_EQ(weak_momentum, "(S(0))(S(0))");
  ASSERT_OK_AND_ASSIGN(const std::string weak_w, select(2, 1));
  EXPECT_EQ(weak_w, "(S(1))(S(1))");
  EXPECT_THAT(select(0, 0).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("nearest: 'momentum' as (S(0))")));
}

TEST(SelectSbpTest, LaterGraphsReadVariablesWhereTheyLie) {
  const CompileOptions options = Options({{"pp", 2}, {"dp", 2}, {"tp", 2}});
  const GptConfig config{.layers = 2, .width = 64, .heads = 4, .context = 32};
  ASSERT_OK_AND_ASSIGN(std::vector<Graph> program,
                       GptProgram(config, {.path = "text"}, {.train = 8, .evaluate = 8}, Continuation{}, Ops()));
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
