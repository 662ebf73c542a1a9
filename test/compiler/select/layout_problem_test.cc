#include "compiler/select/layout_problem.h"

#include "test/compiler/passes/testing.h"

namespace oneflow::testing {
namespace {

// Two layers that are alike on two stages of two ranks each, up to the pass before selection.
absl::StatusOr<Graph> TwoLayers(const CompileOptions& options) {
  GraphBuilder b(Ops(), "layers");
  const Tensor x = ReadSamples(b, 8, {}).rows;
  const Tensor middle = MatMul(x, Weight(b, "v", {16, 16}));
  Fetch(MatMul(middle, Weight(b, "w", {16, 16})), "y");
  OF_ASSIGN_OR_RETURN(Graph graph, b.Finish());
  return RunUpTo("assign-rates", std::move(graph), options);
}

// The options of the nodes that lie as `wanted` says; the first of the others.
std::vector<int> Choose(const LayoutProblem& layouts, const Graph& graph,
                        const std::map<std::string, std::string>& wanted) {
  std::vector<int> choice(graph.num_nodes(), 0);
  for (const auto& [name, text] : wanted) {
    const NodeId id = graph.FindNode(name);
    const std::vector<Layout>& all = layouts.LayoutsOf(id);
    const auto it = std::find_if(all.begin(), all.end(), [&](const Layout& it) { return it.ToString() == text; });
    EXPECT_NE(it, all.end()) << name << " cannot lie as " << text;
    choice[id] = static_cast<int>(it - all.begin());
  }
  return choice;
}

TEST(LayoutProblemTest, NodesAndValuesThatAreAlikeShareOptionsAndPrices) {
  const CompileOptions options = Options({{"tp", 2}});
  ASSERT_OK_AND_ASSIGN(const Graph graph, TwoLayers(options));
  const Topology topology = JobTopology(options);
  LayoutProblem layouts(graph, Ops(), topology, {}, {});
  std::vector<NodeId> conflict;
  ASSERT_OK(layouts.Build(conflict));
  const SearchProblem& problem = layouts.problem();
  ASSERT_EQ(problem.nodes.size(), static_cast<size_t>(graph.num_nodes()));
  ASSERT_EQ(problem.values.size(), static_cast<size_t>(graph.num_values()));
  const NodeId v = graph.FindNode("v"), w = graph.FindNode("w");
  EXPECT_EQ(problem.values[graph.node(v).outputs[0]].alike, problem.values[graph.node(w).outputs[0]].alike);
  for (size_t option = 0; option < problem.nodes[v].options.size(); ++option) {
    EXPECT_EQ(problem.nodes[v].options[option].outputs, problem.nodes[w].options[option].outputs);
  }
}

TEST(LayoutProblemTest, AnOptionCostsItsComputeOncePerAct) {
  const CompileOptions options = Options({{"tp", 2}});
  ASSERT_OK_AND_ASSIGN(const Graph graph, TwoLayers(options));
  const Topology topology = JobTopology(options);
  LayoutProblem layouts(graph, Ops(), topology, {}, {});
  std::vector<NodeId> conflict;
  ASSERT_OK(layouts.Build(conflict));
  CostModel costs(topology);
  const NodeId id = graph.FindNode("matmul");
  const std::vector<Layout>& all = layouts.LayoutsOf(id);
  for (size_t option = 0; option < all.size(); ++option) {
    EXPECT_DOUBLE_EQ(layouts.problem().nodes[id].options[option].seconds,
                     costs.Compute(graph, graph.node(id), *Ops().Find("matmul"), all[option]));
  }
}

// To read v as it lies is free. To gather it costs time, and it is avoided.
TEST(LayoutProblemTest, TheBoxingOfAWeightIsAvoided) {
  const CompileOptions options = Options({{"tp", 2}});
  ASSERT_OK_AND_ASSIGN(const Graph graph, TwoLayers(options));
  const Topology topology = JobTopology(options);
  LayoutProblem layouts(graph, Ops(), topology, {}, {});
  std::vector<NodeId> conflict;
  ASSERT_OK(layouts.Build(conflict));
  std::map<std::string, std::string> wanted = {{"v", "->(B)"}, {"matmul", "(B),(B)->(B)"}};
  const Cost free = CostOf(layouts.problem(), Choose(layouts, graph, wanted));
  wanted["v"] = "->(S(0))";
  const Cost boxed = CostOf(layouts.problem(), Choose(layouts, graph, wanted));
  CostModel costs(topology);
  const Placement& place = *graph.node(0).placement;
  const double gather = costs.Boxing(costs.TypeId({DType::kFloat32, {16, 16}}), costs.DistId({place, {Sbp::Split(0)}}),
                                     costs.DistId({place, {Sbp::Broadcast()}}));
  EXPECT_EQ(boxed.avoided - free.avoided, 1);
  EXPECT_NEAR(boxed.seconds - free.seconds, gather, 1e-12);
}

TEST(LayoutProblemTest, AVariableThatAnEarlierGraphPlacedHasOneLayout) {
  const CompileOptions options = Options({{"tp", 2}});
  ASSERT_OK_AND_ASSIGN(const Graph graph, TwoLayers(options));
  const Topology topology = JobTopology(options);
  const VariableDists variables = {{"v", {*graph.node(0).placement, {Sbp::Split(1)}}}};
  LayoutProblem layouts(graph, Ops(), topology, variables, {});
  std::vector<NodeId> conflict;
  ASSERT_OK(layouts.Build(conflict));
  ASSERT_EQ(layouts.LayoutsOf(graph.FindNode("v")).size(), 1u);
  EXPECT_EQ(layouts.LayoutsOf(graph.FindNode("v"))[0].ToString(), "->(S(1))");
  EXPECT_GT(layouts.LayoutsOf(graph.FindNode("w")).size(), 1u);
}

}  // namespace
}  // namespace oneflow::testing
