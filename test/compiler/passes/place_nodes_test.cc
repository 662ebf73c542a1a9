#include "test/compiler/passes/testing.h"
#include "test/support/names.h"

namespace oneflow::testing {
namespace {

absl::StatusOr<Graph> Place(Graph graph, std::vector<Axis> axes, const VariableDists& variables = {}) {
  return RunUpTo("place-nodes", std::move(graph), Options(std::move(axes)), variables);
}

std::string PlaceOf(const Graph& graph, absl::string_view name) { return NodeOf(graph, name).placement->ToString(); }

// Four equal layers.
Graph Deep(PlacementHint last_at = {}) {
  GraphBuilder b(Ops(), "deep");
  const Samples samples = ReadSamples(b, 8);
  Tensor x = samples.rows;
  for (int i = 0; i < 4; ++i) {
    const GraphBuilder::Scope scope(b, absl::StrCat("h", i));
    if (i == 3 && !last_at.empty()) x = x.To(last_at, {});
    x = Relu(MatMul(x, Weight(b, "w", {16, 16})));
  }
  b.SetLoss(ReduceMean(SoftmaxCrossEntropy(x, samples.labels)));
  return *b.Finish();
}

TEST(PlaceNodesTest, LeavesAllAxesButThePipelineWhole) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, Place(Deep(), {{"dp", 2}, {"tp", 2}}));
  EXPECT_EQ(PlaceOf(graph, "h0/matmul"), "[dp=2,tp=2]{0,1,2,3}");
  EXPECT_EQ(PlaceOf(graph, "h3/w/update"), "[dp=2,tp=2]{0,1,2,3}");
}

TEST(PlaceNodesTest, CutsForwardIntoEqualStagesAndLetsTheRestFollow) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, Place(Deep(), {{"pp", 2}, {"dp", 2}}));
  const std::string first = "[dp=2]{0,1}", second = "[dp=2]{2,3}";
  for (const char* name : {"h0/matmul", "h1/relu", "h1/w", "h1/w/adam_m", "h1/matmul/matmul_wgrad", "h1/w/update"}) {
    EXPECT_EQ(PlaceOf(graph, name), first) << name;
  }
  for (const char* name : {"h2/matmul", "h3/w", "h3/w/adam_v", "h3/matmul/matmul", "h2/w/grad", "h2/w/update"}) {
    EXPECT_EQ(PlaceOf(graph, name), second) << name;
  }
  EXPECT_EQ(PlaceOf(graph, "optimizer/clip"), first);
  EXPECT_EQ(PlaceOf(graph, "optimizer/step"), first);
}

// Behind the third of four equal layers a quarter as much crosses as behind the second, and one stage would be half as
// slow again.
TEST(PlaceNodesTest, FewerBytesBetweenStagesAreNotWorthASlowStage) {
  GraphBuilder b(Ops(), "waist");
  Tensor x = Reshape(ReadSamples(b, 32).rows, {8, 64});
  for (int i = 0; i < 4; ++i) {
    const GraphBuilder::Scope scope(b, absl::StrCat("h", i));
    x = MatMul(x, Weight(b, "w", i % 2 == 0 ? Shape{64, 16} : Shape{16, 64}));
  }
  b.SetLoss(ReduceMean(x));
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  ASSERT_OK_AND_ASSIGN(graph, Place(std::move(graph), {{"pp", 2}}));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(PlaceOf(graph, absl::StrCat("h", i, "/matmul")), i < 2 ? "[]{0}" : "[]{1}");
}

TEST(PlaceNodesTest, GivesEveryStageItsOwnReader) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, Place(Deep(), {{"pp", 2}}));
  EXPECT_EQ(NamesOf(graph, "read_data").size(), 2u);
  // Labels are read where the loss is computed, with their annotation.
  const Node& labels = ProducerOf(graph, NodeOf(graph, "softmax_cross_entropy"), 1);
  EXPECT_EQ(labels.op, "to");
  EXPECT_EQ(ToString(graph.value(labels.outputs[0]).hint), "dp:S(0)");
  EXPECT_EQ(labels.placement, NodeOf(graph, "softmax_cross_entropy").placement);
  EXPECT_EQ(ProducerOf(graph, labels, 0).placement, labels.placement);
}

// Each use of a tied weight is accumulated where it is made; the sums meet where the weight lies.
TEST(PlaceNodesTest, AccumulatesGradientsWhereTheyAreMade) {
  GraphBuilder b(Ops(), "tied");
  const Tensor w = Weight(b, "w", {16, 16});
  const Tensor x = MatMul(ReadSamples(b, 8).rows, w);
  b.SetLoss(ReduceMean(MatMul(x.To(PlacementHint{{"pp", 1}}, {}), w.To({{"tp", Sbp::Broadcast()}}))));
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  ASSERT_OK_AND_ASSIGN(graph, Place(std::move(graph), {{"pp", 2}}));
  EXPECT_EQ(PlaceOf(graph, "w"), "[]{0}");
  EXPECT_EQ(PlaceOf(graph, "w/grad"), "[]{0}");
  for (const std::string& name : NamesOf(graph, "accumulate")) {
    const Node& accumulate = NodeOf(graph, name);
    EXPECT_EQ(*accumulate.placement, *ProducerOf(graph, accumulate, 0).placement) << name;
  }
  EXPECT_NE(PlaceOf(graph, "w/grad_part"), PlaceOf(graph, "w/grad_part_2"));
}

TEST(PlaceNodesTest, PutsAFetchOnOneRankOfItsProducer) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, Place(Mlp(), {{"pp", 2}, {"dp", 2}}));
  EXPECT_EQ(PlaceOf(graph, "fetch"), "[]{2}");
  EXPECT_EQ(PlaceOf(graph, "optimizer/lr/fetch"), "[]{0}");
}

TEST(PlaceNodesTest, MovesWhatFollowsAHint) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, Place(Deep({{"pp", 1}}), {{"pp", 2}}));
  EXPECT_EQ(PlaceOf(graph, "h2/relu"), "[]{0}");
  for (const char* name : {"h3/to", "h3/matmul", "h3/w", "reduce_mean", "h3/w/update"}) {
    EXPECT_EQ(PlaceOf(graph, name), "[]{1}") << name;
  }
}

// Else the weight would lie with its cast, and travel at every step.
TEST(PlaceNodesTest, AWeightInAnotherTypeLiesWhereItIsRead) {
  CompileOptions options = Options({{"pp", 2}});
  options.precision.compute = DType::kBFloat16;
  ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("place-nodes", Deep({{"pp", 1}}), options));
  for (const char* name : {"h2/w", "h2/w/bf16"}) EXPECT_EQ(PlaceOf(graph, name), "[]{0}") << name;
  for (const char* name : {"h3/w", "h3/w/bf16", "h3/matmul", "h3/w/update"}) {
    EXPECT_EQ(PlaceOf(graph, name), "[]{1}") << name;
  }
}

TEST(PlaceNodesTest, RefusesAHintOutsideTheMesh) {
  EXPECT_THAT(
      Place(Deep({{"pp", 2}}), {{"pp", 2}}).status(),
      StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("node 'h3/to'"), HasSubstr("place_nodes_test.cc"))));
}

TEST(PlaceNodesTest, FollowsVariablesThatAnEarlierGraphHasPlaced) {
  const CompileOptions options = Options({{"pp", 2}});
  VariableDists variables;
  for (const auto& [name, rank] : {std::pair{"h0/w", 0}, {"h1/w", 0}, {"h2/w", 0}, {"h3/w", 1}}) {
    variables[name] = DistType{Placement({}, {rank}), {}};
  }
  ASSERT_OK_AND_ASSIGN(const Graph graph, Place(Deep(), {{"pp", 2}}, variables));
  EXPECT_EQ(PlaceOf(graph, "h2/relu"), "[]{0}");
  EXPECT_EQ(PlaceOf(graph, "h3/matmul"), "[]{1}");
}

// --- on another mesh than that of the graph which placed the variables -----------------------------------------------

// Where h0/w .. h3/w have their homes.
VariableDists Homes(const char* first_two, const char* others) {
  VariableDists homes;
  for (int i = 0; i < 4; ++i) {
    const Placement home = *Placement::Parse(i < 2 ? first_two : others);
    homes[absl::StrCat("h", i, "/w")] = {home, NdSbp(home.num_axes(), Sbp::Broadcast())};
  }
  return homes;
}

TEST(PlaceNodesTest, ReadsVariablesFromHomeThroughTheirAnnotationsHere) {
  CompileOptions options = Options({{"dp", 2}, {"tp", 2}});
  options.meshes.emplace("mlp", PlanMesh(*Mesh::Create({{"tp", 2}}), 2));
  const DistType home = {*Placement::Parse("[dp=2,tp=2]{0,1,2,3}"), {Sbp::Broadcast(), Sbp::Split(1)}};
  const SbpHint hint = {{"tp", Sbp::Split(1)}};
  ASSERT_OK_AND_ASSIGN(const Graph graph,
                       RunUpTo("place-nodes", Mlp(8, 32, hint), options, {{"up", home}, {"up/adam_m", home}}));
  EXPECT_EQ(PlaceOf(graph, "up"), "[dp=2,tp=2]{0,1,2,3}");
  EXPECT_EQ(PlaceOf(graph, "matmul"), "[tp=2]{2,3}");
  const Node& here = ProducerOf(graph, NodeOf(graph, "matmul"), 1);
  EXPECT_EQ(here.op, "to");
  EXPECT_EQ(here.placement->ToString(), "[tp=2]{2,3}");
  EXPECT_EQ(ToString(graph.value(here.outputs[0]).hint), "tp:S(1)");
  EXPECT_EQ(ProducerOf(graph, here, 0).name, "up");
  // What it overwrites, it overwrites at home.
  EXPECT_EQ(PlaceOf(graph, "up/update"), "[dp=2,tp=2]{0,1,2,3}");
  EXPECT_EQ(ProducerOf(graph, NodeOf(graph, "up/update"), 0).name, "up");
  // A variable that nobody has placed lies on this mesh.
  EXPECT_EQ(PlaceOf(graph, "down"), "[tp=2]{2,3}");
}

TEST(PlaceNodesTest, AVariableIsBroughtOncePerPlaceThatReadsIt) {
  GraphBuilder b(Ops(), "twice");
  const Tensor w = Weight(b, "w", {16, 16});
  Tensor x = MatMul(MatMul(ReadSamples(b, 8).rows, w), w);
  Fetch(ReduceMean(MatMul(x.To(PlacementHint{{"pp", 1}}, {}), w)), "x");
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  CompileOptions options = Options({});
  options.meshes.emplace("twice", PlanMesh(*Mesh::Create({{"pp", 2}}), 1));
  ASSERT_OK_AND_ASSIGN(graph,
                       RunUpTo("place-nodes", std::move(graph), options, {{"w", {*Placement::Parse("[]{0}"), {}}}}));
  EXPECT_EQ(NamesOf(graph, "to").size(), 4u) << "two of them the user's";
  EXPECT_EQ(PlaceOf(graph, "w/here"), "[]{1}");
  EXPECT_EQ(PlaceOf(graph, "w/here_2"), "[]{2}");
}

TEST(PlaceNodesTest, AMeshOfItsOwnCutsItsWorkAnew) {
  CompileOptions options = Options({{"pp", 2}});
  options.meshes.emplace("deep", PlanMesh(*Mesh::Create({{"pp", 4}}), 0));
  ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("place-nodes", Deep(), options, Homes("[dp=2]{0,1}", "[dp=2]{2,3}")));
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(PlaceOf(graph, absl::StrCat("h", i, "/relu")), absl::StrCat("[]{", i, "}"));
  }
}

TEST(PlaceNodesTest, FollowsHomesThatArePartsOfItsMesh) {
  CompileOptions options = Options({{"pp", 2}});
  options.meshes.emplace("deep", PlanMesh(*Mesh::Create({{"pp", 3}})));
  ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("place-nodes", Deep(), options, Homes("[]{0}", "[]{1}")));
  EXPECT_EQ(PlaceOf(graph, "h1/relu"), "[]{0}");
  EXPECT_EQ(PlaceOf(graph, "h3/relu"), "[]{1}");
  EXPECT_THAT(NamesOf(graph, "to"), ::testing::SizeIs(2)) << "of the data";
}

// --- what overwrites variables ---------------------------------------------------------------------------------------

// Overwrites w and u, wherever these and the node are asked to lie.
absl::StatusOr<Graph> Overwrites(PlacementHint w_at, PlacementHint u_at, PlacementHint at) {
  GraphBuilder b(Ops(), "overwrites");
  const auto variable = [&](const char* name, PlacementHint here) {
    const GraphBuilder::PlacementScope scope(b, std::move(here));
    return Weight(b, name, {4});
  };
  const Tensor w = variable("w", std::move(w_at)), u = variable("u", std::move(u_at));
  const Tensor gradient = Constant(b, {DType::kFloat32, {4}}, 1), one = Constant(b, {DType::kFloat32, {}}, 1);
  const GraphBuilder::PlacementScope scope(b, std::move(at));
  b.Op("sgd_update", {w, u, gradient, one, one}, {{"momentum", 0.9}, {"nesterov", false}, {"weight_decay", 0.0}},
       std::source_location::current(), "update");
  return b.Finish();
}

TEST(PlaceNodesTest, WhatIsOverwrittenLiesWhereOneOfItIsWanted) {
  struct Case {
    PlacementHint w, u, node;
    const char* place;
  };
  for (const Case& c : std::vector<Case>{{{}, {}, {}, "[dp=2]{2,3}"},
                                         {{{"pp", 1}}, {}, {}, "[dp=2]{2,3}"},
                                         {{}, {{"pp", 1}}, {}, "[dp=2]{2,3}"},
                                         {{}, {}, {{"pp", 1}}, "[dp=2]{2,3}"},
                                         {{{"dp", 1}}, {}, {}, "[]{3}"},
                                         {{}, {{"pp", 0}, {"dp", 1}}, {}, "[]{1}"},
                                         {{{"pp", 1}}, {{"pp", 1}}, {{"pp", 1}}, "[dp=2]{2,3}"}}) {
    ASSERT_OK_AND_ASSIGN(Graph graph, Overwrites(c.w, c.u, c.node));
    ASSERT_OK_AND_ASSIGN(graph, Place(std::move(graph), {{"pp", 2}, {"dp", 2}}));
    for (const char* name : {"w", "u", "update"}) EXPECT_EQ(PlaceOf(graph, name), c.place) << name;
  }
}

TEST(PlaceNodesTest, WhatIsOverwrittenIsNotWantedInTwoPlaces) {
  struct Case {
    PlacementHint w, u, node;
    std::vector<const char*> says;
  };
  for (const Case& c : std::vector<Case>{
           {{{"pp", 0}},
            {{"pp", 1}},
            {},
            {"variable 'w', which is to lie on [dp=2]{0,1}", "'u', which is to lie on [dp=2]{2,3}"}},
           {{{"dp", 0}}, {{"dp", 1}}, {}, {"variable 'w', which is to lie on []{2}", "'u', which is to lie on []{3}"}},
           {{{"pp", 0}},
            {},
            {{"pp", 1}},
            {"is to run on [dp=2]{2,3}", "variable 'w', which is to lie on [dp=2]{0,1}"}}}) {
    ASSERT_OK_AND_ASSIGN(Graph graph, Overwrites(c.w, c.u, c.node));
    const absl::Status status = Place(std::move(graph), {{"pp", 2}, {"dp", 2}}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    for (const char* says : c.says) EXPECT_THAT(status.message(), HasSubstr(says));
    EXPECT_THAT(status.message(), AllOf(HasSubstr("node 'update'"), HasSubstr("place_nodes_test.cc")));
  }
}

TEST(PlaceNodesTest, WhatIsOverwrittenHasOneHome) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, Overwrites({}, {}, {}));
  const VariableDists homes = {{"w", {*Placement::Parse("[]{0}"), {}}}, {"u", {*Placement::Parse("[]{1}"), {}}}};
  EXPECT_THAT(Place(graph, {{"pp", 2}}, homes).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("'w', which is to lie on []{0}"), HasSubstr("'u', which is to lie on []{1}"))));
}

TEST(GroupSumsTest, AddsPerStageBeforeAddingOverStages) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("group-sums", Deep(), Options({{"pp", 2}})));
  const Node& total = ProducerOf(graph, NodeOf(graph, "optimizer/clip"), 0);
  int remote = 0;
  for (size_t i = 0; i < total.inputs.size(); ++i) remote += ProducerOf(graph, total, i).placement != total.placement;
  EXPECT_EQ(remote, 1);
}

}  // namespace
}  // namespace oneflow::testing
