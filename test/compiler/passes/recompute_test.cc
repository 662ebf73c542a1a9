#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "compiler/plan/variables.h"
#include "oneflow_core/graph_editor.h"
#include "oneflow_core/graph_text.h"
#include "oneflow_core/models/gpt.h"
#include "test/compiler/passes/testing.h"
#include "test/support/golden.h"
#include "test/support/names.h"

namespace oneflow::testing {
namespace {

CompileOptions Recomputing(const std::string& what, std::vector<Axis> axes = {}, int micro_batches = 1) {
  CompileOptions options = Options(std::move(axes), micro_batches);
  options.recompute.what = what;
  return options;
}

// The graph as the plan will have it.
absl::StatusOr<Graph> Boxed(Graph graph, const CompileOptions& options, std::vector<std::string>* warnings = nullptr) {
  VariableDists variables;
  return RunPasses(std::move(graph), options, Ops(), variables, nullptr, warnings);
}

std::vector<std::string> Clones(const Graph& graph) {
  std::vector<std::string> names;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    if (graph.node(id).role == Role::kRecompute) names.push_back(graph.node(id).name);
  }
  return names;
}

// What a rank holds of each micro-batch from forward to backward, those of variables' values left out.
int64_t KeptBytes(const Graph& graph) {
  const std::vector<bool> varies = DependsOnMicroBatch(graph, Ops());
  int64_t bytes = 0;
  std::set<ValueId> counted;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    if (!IsBackward(graph.node(id))) continue;
    for (const ValueId input : graph.node(id).inputs) {
      const NodeId maker = graph.value(input).producer;
      if (!IsForward(graph.node(maker)) || !varies[maker] || !counted.insert(input).second) continue;
      bytes += ShardBytes(graph.value(input).type, *graph.value(input).dist);
    }
  }
  return bytes;
}

struct GptSizes {
  int64_t batch = 4, sequence = 32, width = 48, heads = 4;
  int64_t bs() const { return batch * sequence; }
  int64_t bsh() const { return bs() * width; }
};

Graph TrainedGpt(int layers, const GptSizes& sizes = {}) {
  const GptConfig config{.vocabulary = 64,
                         .layers = layers,
                         .width = sizes.width,
                         .heads = sizes.heads,
                         .context = sizes.sequence,
                         .dropout = 0.1};
  return (*GptProgram(config, {"text"}, {sizes.batch, 0}, std::nullopt, Ops()))[0];
}

// What a layer adds to what a rank holds.
int64_t BytesPerLayer(const CompileOptions& options, const GptSizes& sizes = {}) {
  const absl::StatusOr<Graph> more = Boxed(TrainedGpt(3, sizes), options), less = Boxed(TrainedGpt(2, sizes), options);
  EXPECT_OK(more.status());
  EXPECT_OK(less.status());
  return more.ok() && less.ok() ? KeptBytes(*more) - KeptBytes(*less) : -1;
}

// gelu(tanh(x) w) in a segment, twice, and a loss behind them.
Graph TwoSegments(const std::string& kind = "layers") {
  GraphEditor b(Ops(), Graph("two"));
  b.set_source("model.cc:7");  // so that lines of the golden text do not move
  const Samples samples = ReadSamples(b, 8);
  Tensor x = samples.rows;
  for (const char* name : {"a", "b"}) {
    const GraphBuilder::Scope scope(b, name);
    const GraphBuilder::Segment segment(b, kind);
    x = Gelu(MatMul(Tanh(x), Weight(b, "w", {16, 16})));
  }
  b.SetLoss(ReduceMean(SoftmaxCrossEntropy(x, samples.labels)));
  return *b.Finish();
}

TEST(RecomputeTest, ReadsAsInTheGoldenText) {
  CompileOptions options = Recomputing("layers");
  ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("recompute", TwoSegments(), options));
  std::string text;  // without the update
  for (const absl::string_view line : absl::StrSplit(GraphToText(graph), '\n')) {
    if (!line.empty() && !absl::StrContains(line, " role update")) absl::StrAppend(&text, line, "\n");
  }
  EXPECT_GOLDEN("compiler/recompute.graph", text);
}

TEST(RecomputeTest, TheWholeOfASegmentIsRunAgainIfSoAsked) {
  const GptConfig config{.layers = 2, .width = 16, .heads = 2, .context = 8, .dropout = 0.1};
  const auto clones = [&](bool whole) {
    CompileOptions options = Recomputing("layers");
    options.recompute.whole = whole;
    const absl::StatusOr<std::vector<Graph>> program =
        GptProgram(config, {.path = "text"}, {.train = 2}, std::nullopt, Ops());
    EXPECT_OK(program.status());
    const absl::StatusOr<Graph> graph = Boxed((*program)[0], options);
    EXPECT_OK(graph.status());
    return Clones(*graph);
  };
  EXPECT_THAT(clones(false), Not(Contains("h1/mlp/down/bias_add/recompute")))
      << "backward has no use for what it makes";
  EXPECT_THAT(clones(true), IsSupersetOf({"h1/mlp/down/bias_add/recompute", "h1/add_2/recompute"}));
}

TEST(RecomputeTest, CastsAreMadeAgainToo) {
  const GptConfig config{.layers = 1, .width = 16, .heads = 2, .context = 8};
  ASSERT_OK_AND_ASSIGN(const std::vector<Graph> program,
                       GptProgram(config, {.path = "text"}, {.train = 2}, std::nullopt, Ops()));
  CompileOptions options = Recomputing("layers");
  options.precision.compute = DType::kBFloat16;
  ASSERT_OK_AND_ASSIGN(const Graph graph, Boxed(program[0], options));
  const std::vector<std::vector<NodeId>> readers = graph.Consumers();
  const std::vector<bool> varies = DependsOnMicroBatch(graph, Ops());  // casts of weights do not
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (node.op != "cast" || !IsForward(node) || !varies[id] || graph.SegmentOfKind(node.segment, "layers") < 0)
      continue;
    for (const NodeId reader : readers[node.outputs[0]]) EXPECT_FALSE(IsBackward(graph.node(reader))) << node.name;
  }
}

// b, s, h, a: samples, tokens, width, heads; t ranks along tp. By element 4 bytes. What backward reads of a layer:
//
//   input, ln1's output, the sum before ln2, ln2's output    4 bsh      on every rank of tp
//   q, k, v, attention's output                              4 bsh / t
//   gelu's input and output                                  8 bsh / t
//   means and deviations of both norms                       4 bs
//   lse                                                      abs / t
//
// Dropout keeps no masks. In 16 bits this would be 32 sbh: the 34 of Korthikanti et al. for selective recomputation,
// less their two masks; and with all of a layer computed again, its input: 2 sbh.
TEST(RecomputeTest, LayersHoldWhatTheFormulasSay) {
  const GptSizes x;
  for (const int64_t t : {1, 2, 4}) {
    SCOPED_TRACE(absl::StrCat("tp", t));
    const std::vector<Axis> axes = {{"tp", static_cast<int>(t)}};
    EXPECT_EQ(BytesPerLayer(Recomputing("", axes)), 4 * (4 * x.bsh() + 12 * x.bsh() / t + (4 + x.heads / t) * x.bs()));
    EXPECT_EQ(BytesPerLayer(Recomputing("layers", axes)), 4 * x.bsh());
    EXPECT_EQ(BytesPerLayer(Recomputing("attention", axes)), BytesPerLayer(Recomputing("", axes)))
        << "the fused attention keeps its output for what follows it, so to make lse again would cost more than it";
  }
}

// Larger ones are sequence-parallel: what lay on every rank of tp is split over it, and gathered for the matmuls behind
// the norms. With gathers repeated, a rank holds its part of everything.
TEST(RecomputeTest, SequenceParallelLayersHoldTheirPartOfEverything) {
  const GptSizes x{.batch = 16, .sequence = 128, .width = 128};
  for (const int64_t t : {2, 4}) {
    SCOPED_TRACE(absl::StrCat("tp", t));
    CompileOptions options = Recomputing("", {{"tp", static_cast<int>(t)}});
    options.ranks_per_process = static_cast<int>(t);
    const int64_t statistics = (4 + x.heads) * x.bs() / t;
    EXPECT_EQ(BytesPerLayer(options, x), 4 * (2 * x.bsh() + 14 * x.bsh() / t + statistics));
    options.recompute.gathers = true;
    EXPECT_EQ(BytesPerLayer(options, x), 4 * (16 * x.bsh() / t + statistics));
    options.recompute.what = "layers";
    EXPECT_EQ(BytesPerLayer(options, x), 4 * x.bsh() / t);
  }
}

// Attention by parts keeps its scores: after softmax, and what dropout left of them; computed again, none.
TEST(RecomputeTest, TheCoreOfAttentionHoldsNoScores) {
  const GptSizes x;
  const auto graph = [&] {
    GraphBuilder b(Ops(), "core");
    const std::vector<Tensor> data = b.Op("read_data", {},
                                          {{"dataset", std::string("images")},
                                           {"batch", x.batch * x.heads},
                                           {"channels", int64_t{1}},
                                           {"height", x.sequence},
                                           {"width", x.width}});
    const Tensor rows = Reshape(data[0], {x.batch * x.heads, x.sequence, x.width});
    const Shape square = {x.width, x.width};
    const Tensor q = MatMul(rows, Weight(b, "q", square)), k = MatMul(rows, Weight(b, "k", square)),
                 v = MatMul(rows, Weight(b, "v", square));
    Tensor mixed;
    {
      const GraphBuilder::Segment core(b, "attention");
      const Tensor scores = Scale(BatchMatMul(q, k, false, true), 0.1);
      mixed = BatchMatMul(Dropout(Softmax(scores), 0.1), v);
    }
    b.SetLoss(ReduceMean(Square(MatMul(mixed, Weight(b, "o", square)))));
    return *b.Finish();
  };
  ASSERT_OK_AND_ASSIGN(const Graph kept, Boxed(graph(), Recomputing("")));
  ASSERT_OK_AND_ASSIGN(const Graph again, Boxed(graph(), Recomputing("attention")));
  EXPECT_EQ(KeptBytes(kept) - KeptBytes(again), 4 * 2 * x.bs() * x.heads * x.sequence);
}

TEST(RecomputeTest, ClonesDrawTheNumbersAndLieAsTheirOriginals) {
  CompileOptions options = Recomputing("layers", {{"dp", 2}, {"tp", 2}}, 2);
  options.fuse = false;  // what a clone is fused with is not what its original is
  ASSERT_OK_AND_ASSIGN(const Graph graph, Boxed(TrainedGpt(2), options));
  int dropouts = 0, boxings = 0;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& clone = graph.node(id);
    if (clone.role != Role::kRecompute) continue;
    ASSERT_GE(clone.forward, 0);
    const Node& original = graph.node(clone.forward);
    EXPECT_EQ(clone.op, original.op);
    EXPECT_EQ(clone.attrs.items(), original.attrs.items());
    EXPECT_EQ(clone.rate, original.rate);
    EXPECT_EQ(clone.chunk, original.chunk);
    for (size_t i = 0; i < clone.outputs.size(); ++i) {
      EXPECT_EQ(graph.value(clone.outputs[i]).dist, graph.value(original.outputs[i]).dist);
    }
    dropouts += clone.op == "dropout";
    boxings += clone.op == "boxing";
  }
  EXPECT_EQ(dropouts, 2) << "of each layer that behind attention; what comes behind the mlp nobody reads";
  EXPECT_GT(boxings, 0) << "the sum behind attention over tp";
}

// A value split along tp that is gathered for a matmul: of it, its own part; and it is gathered again.
TEST(RecomputeTest, WhatWasGatheredIsGatheredAgain) {
  const auto graph = [] {
    GraphBuilder b(Ops(), "gathered");
    const Samples samples = ReadSamples(b, 8, {{"tp", Sbp::Split(0)}});
    const Tensor rows = Tanh(Mul(samples.rows, Weight(b, "w", {16})));
    const Tensor y = MatMul(rows.To({{"tp", Sbp::Broadcast()}}), Weight(b, "up", {16, 32}, {{"tp", Sbp::Split(1)}}));
    b.SetLoss(ReduceMean(Square(y)));
    return *b.Finish();
  };
  CompileOptions options = Recomputing("", {{"tp", 4}});
  ASSERT_OK_AND_ASSIGN(const Graph kept, Boxed(graph(), options));
  options.recompute.gathers = true;
  ASSERT_OK_AND_ASSIGN(const Graph again, Boxed(graph(), options));
  EXPECT_EQ(KeptBytes(kept) - KeptBytes(again), 4 * 8 * 16) << "the whole; the part is kept for the tanh's gradient";
  ASSERT_EQ(Clones(again).size(), 1u);
  EXPECT_EQ(NodeOf(again, Clones(again)[0]).op, "boxing");
}

// In any order that keeps the graph's edges a clone follows some gradient.
TEST(RecomputeTest, NothingIsComputedAgainBeforeAGradientAsksForIt) {
  const std::vector<std::vector<Axis>> meshes = {{}, {{"tp", 2}}, {{"pp", 2}, {"dp", 2}}};
  for (const std::vector<Axis>& axes : meshes) {
    ASSERT_OK_AND_ASSIGN(const Graph graph, Boxed(TrainedGpt(3), Recomputing("layers", axes, 2)));
    std::vector<bool> behind(graph.num_nodes(), false);  // a gradient that is none of a weight
    int clones = 0;
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      const Node& node = graph.node(id);
      const bool again = node.role == Role::kRecompute;
      for (const std::vector<ValueId>& before : {node.inputs, node.after}) {
        for (const ValueId value : before) {
          const Node& maker = graph.node(graph.value(value).producer);
          behind[id] = behind[id] || behind[graph.value(value).producer] ||
                       (maker.role == Role::kInputGradient && !maker.inputs.empty());
        }
      }
      clones += again;
      EXPECT_TRUE(!again || behind[id]) << Where(node);
      for (const ValueId value : node.after) EXPECT_EQ(graph.value(value).dist->placement, *node.placement);
    }
    EXPECT_GT(clones, 3);
  }
}

TEST(RecomputeTest, OnlySoManyOfEachChunk) {
  CompileOptions options = Recomputing("layers", {{"pp", 2}}, 2);
  const auto layers = [&](int first) {
    options.recompute.first = first;
    const absl::StatusOr<Graph> graph = Boxed(TrainedGpt(4), options);
    EXPECT_OK(graph.status());
    std::set<std::pair<int, std::string>> seen;  // of each chunk
    for (NodeId id = 0; graph.ok() && id < graph->num_nodes(); ++id) {
      const Node& node = graph->node(id);
      if (node.role != Role::kRecompute || node.op != "attention") continue;
      seen.insert({node.chunk, graph->node(node.forward).name.substr(0, 2)});
    }
    return seen;
  };
  using Layers = std::set<std::pair<int, std::string>>;
  EXPECT_EQ(layers(0), (Layers{{0, "h0"}, {0, "h1"}, {1, "h2"}, {1, "h3"}}));
  EXPECT_EQ(layers(1), (Layers{{0, "h0"}, {1, "h2"}}));
}

// y is read by its own gradient alone, but to make it again would keep x for it.
TEST(RecomputeTest, AClonedNodeThatKeepsAsMuchAsItFreesIsNotMade) {
  GraphBuilder b(Ops(), "even");
  const Samples samples = ReadSamples(b, 8);
  const Tensor x = Mul(samples.rows, Weight(b, "w", {16}));
  Tensor y;
  {
    const GraphBuilder::Segment segment(b, "layers");
    y = Tanh(x);
  }
  b.SetLoss(ReduceMean(Square(Scale(y, 2))));
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  std::vector<std::string> warnings;
  ASSERT_OK_AND_ASSIGN(graph, Boxed(std::move(graph), Recomputing("layers"), &warnings));
  EXPECT_THAT(Clones(graph), IsEmpty());
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("recompute 'layers' changes nothing")));
}

TEST(RecomputeTest, SegmentsThatTheModelDoesNotMarkAreAnError) {
  EXPECT_THAT(Boxed(TrainedGpt(1), Recomputing("layer")).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("pass 'recompute'"),
                             HasSubstr("recompute.what is 'layer', but the model marks 'attention', 'layers' only"))));
  EXPECT_THAT(Boxed(Mlp(), Recomputing("layers")).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the model marks no segments")));
}

}  // namespace
}  // namespace oneflow::testing
