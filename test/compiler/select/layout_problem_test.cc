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

class LayoutProblemTest : public ::testing::Test {
 protected:
  LayoutProblemTest() {
    std::vector<NodeId> conflict;
    EXPECT_OK(layouts_.Build(conflict));
  }

  const CompileOptions options_ = Options({{"tp", 2}});
  const Graph graph_ = *TwoLayers(options_);
  const Topology topology_ = JobTopology(options_);
  LayoutProblem layouts_{graph_, Ops(), topology_, {}, {}};
};

TEST_F(LayoutProblemTest, NodesAndValuesThatAreAlikeShareOptionsAndPrices) {
  const SearchProblem& problem = layouts_.problem();
  ASSERT_EQ(problem.nodes.size(), static_cast<size_t>(graph_.num_nodes()));
  ASSERT_EQ(problem.values.size(), static_cast<size_t>(graph_.num_values()));
  const NodeId v = graph_.FindNode("v"), w = graph_.FindNode("w");
  EXPECT_EQ(problem.values[graph_.node(v).outputs[0]].alike, problem.values[graph_.node(w).outputs[0]].alike);
  for (size_t option = 0; option < problem.nodes[v].options.size(); ++option) {
    EXPECT_EQ(problem.nodes[v].options[option].outputs, problem.nodes[w].options[option].outputs);
  }
}

TEST_F(LayoutProblemTest, AnOptionCostsItsComputeOncePerAct) {
  CostModel costs(topology_);
  const NodeId id = graph_.FindNode("matmul");
  const std::vector<Layout>& all = layouts_.LayoutsOf(id);
  for (size_t option = 0; option < all.size(); ++option) {
    EXPECT_DOUBLE_EQ(layouts_.problem().nodes[id].options[option].seconds,
                     costs.Compute(graph_, graph_.node(id), *Ops().Find("matmul"), all[option]));
  }
}

// To read v as it lies is free. To gather it costs time, and it is avoided.
TEST_F(LayoutProblemTest, TheBoxingOfAWeightIsAvoided) {
  std::map<std::string, std::string> wanted = {{"v", "->(B)"}, {"matmul", "(B),(B)->(B)"}};
  const Cost free = CostOf(layouts_.problem(), Choose(layouts_, graph_, wanted));
  wanted["v"] = "->(S(0))";
  const Cost boxed = CostOf(layouts_.problem(), Choose(layouts_, graph_, wanted));
  CostModel costs(topology_);
  const Placement& place = *graph_.node(0).placement;
  const double gather = costs.Boxing(costs.TypeId({DType::kFloat32, {16, 16}}), costs.DistId({place, {Sbp::Split(0)}}),
                                     costs.DistId({place, {Sbp::Broadcast()}}));
  EXPECT_EQ(boxed.avoided - free.avoided, 1);
  EXPECT_NEAR(boxed.seconds - free.seconds, gather, 1e-12);
}

TEST_F(LayoutProblemTest, AVariableThatAnEarlierGraphPlacedHasOneLayout) {
  const VariableDists variables = {{"v", {*graph_.node(0).placement, {Sbp::Split(1)}}}};
  LayoutProblem layouts(graph_, Ops(), topology_, variables, {});
  std::vector<NodeId> conflict;
  ASSERT_OK(layouts.Build(conflict));
  ASSERT_EQ(layouts.LayoutsOf(graph_.FindNode("v")).size(), 1u);
  EXPECT_EQ(layouts.LayoutsOf(graph_.FindNode("v"))[0].ToString(), "->(S(1))");
  EXPECT_GT(layouts.LayoutsOf(graph_.FindNode("w")).size(), 1u);
}

}  // namespace
}  // namespace oneflow::testing
