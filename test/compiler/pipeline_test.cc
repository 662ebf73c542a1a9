#include "compiler/pipeline.h"

#include <algorithm>
#include <fstream>
#include <random>

#include "absl/strings/match.h"
#include "oneflow_core/graph_editor.h"
#include "oneflow_core/graph_text.h"
#include "test/compiler/passes/testing.h"
#include "test/support/annotations.h"
#include "test/support/names.h"
#include "test/support/paths.h"

namespace oneflow::testing {
namespace {

TEST(PipelineTest, ShowsTheGraphAfterEveryPass) {
  std::vector<std::string> seen, expected;
  for (const Pass& pass : Pipeline()) expected.push_back(pass.name);
  VariableDists variables;
  ASSERT_OK(RunPasses(Mlp(), Options({}), Ops(), variables, [&](absl::string_view pass, const Graph& graph) {
    seen.emplace_back(pass);
    EXPECT_GT(graph.num_nodes(), 0);
  }));
  EXPECT_THAT(seen, ElementsAreArray(expected));
}

absl::Status RunOnMlp(absl::Span<const Pass> passes) {
  Graph graph = Mlp();
  const CompileOptions options = Options({});
  const VariableDists variables;
  PassContext context{options, Ops(), variables, JobTopology(options)};
  return RunPipeline(passes, graph, context, nullptr);
}

TEST(PipelineTest, BlamesThePassThatBreaksTheGraph) {
  const Pass passes[] = {{"break-names", [](Graph& graph, PassContext&) -> absl::StatusOr<bool> {
                            graph.node(1).name = graph.node(0).name;
                            return true;
                          }}};
  EXPECT_THAT(RunOnMlp(passes),
              StatusIs(absl::StatusCode::kInternal, AllOf(HasSubstr("graph 'mlp'"), HasSubstr("pass 'break-names'"))));
}

TEST(PipelineTest, RefusesImpossibleOptions) {
  VariableDists variables;
  EXPECT_THAT(RunPasses(Mlp(), Options({}, 0), Ops(), variables).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("0 micro-batches")));
  CompileOptions options = Options({});
  options.ranks_per_process = 0;
  EXPECT_THAT(RunPasses(Mlp(), options, Ops(), variables).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("0 ranks")));
}

TEST(PipelineTest, RefusesAHintForAnAxisThatNoMeshHas) {
  const auto compile = [](SbpHint up, PlacementHint at, const CompileOptions& options) {
    GraphBuilder b(Ops(), "mlp");
    const Tensor hidden = MatMul(ReadSamples(b, 8).rows, Weight(b, "up", {16, 32}, std::move(up)));
    Fetch(ReduceMean(at.empty() ? hidden : hidden.To(std::move(at), {})), "y");
    VariableDists variables;
    return RunPasses(*b.Finish(), options, Ops(), variables).status();
  };
  CompileOptions options = Options({{"dp", 2}, {"rows", 2}});
  EXPECT_OK(compile({{"rows", Sbp::Split(1)}}, {}, options));
  EXPECT_OK(compile({{"tp", Sbp::Split(1)}, {"ep", Sbp::Split(0)}}, {{"pp", 0}}, options))
      << "models say this anywhere";
  EXPECT_THAT(compile({{"row", Sbp::Split(1)}}, {}, options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("node 'up'"), HasSubstr("testing.h"), HasSubstr("axis 'row'"),
                             HasSubstr("they have 'dp', 'rows'"))));
  EXPECT_THAT(
      compile({}, {{"stage", 0}}, options),
      StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("pipeline_test.cc"), HasSubstr("axis 'stage'"))));
  options.meshes.emplace("evaluate", PlanMesh(*Mesh::Create({{"row", 2}})));
  EXPECT_OK(compile({{"row", Sbp::Split(1)}}, {}, options)) << "another plan's mesh has it";
}

TEST(PipelineTest, APassMayNotDropALoss) {
  const Pass passes[] = {{"forget", [](Graph& graph, PassContext&) -> absl::StatusOr<bool> {
                            graph.losses.clear();
                            return true;
                          }}};
  EXPECT_THAT(RunOnMlp(passes),
              StatusIs(absl::StatusCode::kInternal, AllOf(HasSubstr("'forget'"), HasSubstr("0 of 1 losses"))));
}

TEST(PipelineTest, RecordsWhereVariablesLie) {
  VariableDists variables;
  ASSERT_OK(RunPasses(Mlp(8, 32, {{"tp", Sbp::Split(1)}}), Options({{"tp", 2}}), Ops(), variables));
  EXPECT_EQ(variables.at("up").ToString(), "[tp=2]{0,1}(S(1))");
  EXPECT_EQ(variables.at("up/adam_m").ToString(), "[tp=2]{0,1}(S(1))");
  EXPECT_EQ(variables.count("optimizer/step"), 1u);
}

// --- random graphs
// ----------------------------------------------------------------------------------------------------

class RandomGraph {
 public:
  explicit RandomGraph(unsigned seed) : random_(seed), b_(Ops(), absl::StrCat("random", seed)) {}

  Graph Make() {
    const Samples samples = ReadSamples(b_, Pick({4, 5, 8}), Chance(2) ? SbpHint{{"dp", Sbp::Split(0)}} : SbpHint{});
    rows_.push_back(MatMul(samples.rows, NewWeight({16, 16})));
    const int steps = 4 + static_cast<int>(random_() % 10);
    for (int i = 0; i < steps; ++i) rows_.push_back(Grow());
    Tensor loss = ReduceMean(SoftmaxCrossEntropy(rows_.back(), samples.labels));
    for (const Tensor& x : rows_) {
      if (Chance(4)) loss = Add(loss, ReduceMean(Square(x)));
    }
    // So that every weight is reached.
    for (const Tensor& w : weights_) loss = Add(loss, Scale(ReduceSum(Square(w)), 1e-3));
    b_.SetLoss(loss);
    Fetch(loss, "loss");
    if (Chance(2)) Fetch(ReduceMax(rows_.back(), {0, 1}), "largest");
    return *b_.Finish();
  }

 private:
  bool Chance(unsigned one_in) { return random_() % one_in == 0; }
  int64_t Pick(std::vector<int64_t> of) { return of[random_() % of.size()]; }
  Tensor Any() { return rows_[random_() % rows_.size()]; }
  SbpHint AnyHint(int rank) {
    SbpHint hint;
    if (Chance(3))
      hint.push_back({"tp", Chance(3) ? Sbp::Broadcast() : Sbp::Split(static_cast<int>(random_() % rank))});
    if (Chance(6))
      hint.push_back({"dp", Chance(2) ? Sbp::Broadcast() : Sbp::Split(static_cast<int>(random_() % rank))});
    return hint;
  }
  Tensor NewWeight(Shape shape) {
    const int rank = shape.rank();
    weights_.push_back(Weight(b_, absl::StrCat("w", weights_.size()), std::move(shape), AnyHint(rank)));
    return weights_.back();
  }

  // One more op on what there is; all values are [n,16].
  Tensor Grow() {
    const Tensor x = Any();
    switch (random_() % 10) {
      case 0:
        return Relu(x);
      case 1:
        return Add(x, Any());
      case 2:
        return Mul(x, Any());
      case 3:
        return Softmax(x);
      case 4:
        return LayerNorm(x, NewWeight({16}), NewWeight({16}));
      case 5:
        return BiasAdd(x, NewWeight({16}));
      case 6:
        return x.To(AnyHint(2));
      case 7:
        return Dropout(Gelu(x), 0.1);
      case 8:
        return Transpose(Transpose(x, {1, 0}), {1, 0});
      default:
        return MatMul(x, NewWeight({16, 16}));
    }
  }

  std::mt19937 random_;
  GraphBuilder b_;
  std::vector<Tensor> rows_, weights_;
};

TEST(PipelineTest, RandomGraphsOnRandomMeshesMeetTheContract) {
  int met = 0;
  const std::vector<std::vector<Axis>> meshes = {{},
                                                 {{"dp", 2}},
                                                 {{"dp", 3}},
                                                 {{"tp", 2}},
                                                 {{"dp", 2}, {"tp", 2}},
                                                 {{"pp", 2}, {"dp", 2}},
                                                 {{"pp", 3}},
                                                 {{"pp", 2}, {"dp", 2}, {"tp", 2}}};
  for (unsigned seed = 1; seed <= 64; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    CompileOptions options = Options(meshes[seed % meshes.size()], 1 + static_cast<int>(seed % 3));
    options.keep_gradients = seed % 2 == 0;
    VariableDists variables, again;
    const Graph graph = RandomGraph(seed).Make();
    const auto annotations_hold = [&](absl::string_view pass, const Graph& after) {
      if (pass == "select-sbp") met += ExpectAnnotationsHold(after);
    };
    ASSERT_OK_AND_ASSIGN(const Graph boxed,
                         RunPasses(graph, options, Ops(), variables, annotations_hold));  // verifies the contract
    ASSERT_OK_AND_ASSIGN(const Graph twin, RunPasses(graph, options, Ops(), again));
    ASSERT_EQ(GraphToText(boxed), GraphToText(twin));
    EXPECT_EQ(variables, again);
  }
  EXPECT_GT(met, 150);
}

// Of one that cannot be met, what is asked for and what there is.
TEST(PipelineTest, AnAnnotationThatCannotBeMetIsRefused) {
  for (const auto& [hint, says] : std::vector<std::pair<SbpHint, std::string>>{
           {{{"tp", Sbp::Split(1)}}, "S(1)"}, {{{"dp", Sbp::Broadcast()}, {"tp", Sbp::Split(1)}}, "S(1)"}}) {
    GraphEditor b(Ops(), Graph("refused"));
    const Tensor x = MatMul(ReadSamples(b, 8).rows, Weight(b, "w", {16, 16}));
    const Tensor y = LayerNorm(x, Weight(b, "gamma", {16}), Weight(b, "beta", {16}));  // along what must be whole
    b.mutable_graph().value(y.id()).hint = hint;
    Fetch(ReduceSum(y), "y");
    VariableDists variables;
    EXPECT_THAT(RunPasses(*b.Finish(), Options({{"dp", 2}, {"tp", 2}}), Ops(), variables).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("node 'layer_norm'"), HasSubstr(says))));
  }
}

// The table that says what each pass decides has all of them, in their order.
TEST(PipelineTest, TheReadmeNamesThePasses) {
  std::ifstream readme(SourceDir() + "/compiler/README.md");
  std::vector<std::string> named, passes;
  bool in_table = false;
  for (std::string line; std::getline(readme, line);) {
    in_table = in_table ? absl::StartsWith(line, "|") : absl::StartsWith(line, "| pass | decides |");
    if (in_table && absl::StartsWith(line, "| `")) named.push_back(line.substr(3, line.find('`', 3) - 3));
  }
  for (const Pass& pass : Pipeline()) passes.push_back(pass.name);
  EXPECT_THAT(named, ElementsAreArray(passes));
}

}  // namespace
}  // namespace oneflow::testing
