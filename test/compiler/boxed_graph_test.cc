// VerifyBoxedGraph has to notice every broken clause of the contract: each test breaks one in a graph that was right.
#include "compiler/boxed_graph.h"

#include "test/compiler/passes/testing.h"
#include "test/support/names.h"

namespace oneflow::testing {
namespace {

const CompileOptions& TwoByTwo() {
  static const CompileOptions* const options = new CompileOptions(Options({{"pp", 2}, {"dp", 2}}, 2));
  return *options;
}

Graph Good() {
  VariableDists variables;
  return *RunPasses(Mlp(), TwoByTwo(), Ops(), variables);
}

absl::Status Verify(const Graph& graph) { return VerifyBoxedGraph(graph, Ops(), TwoByTwo()); }

Node& Mutable(Graph& graph, absl::string_view name) { return graph.node(graph.FindNode(name)); }

auto Refused(const std::string& node, const std::string& why) {
  return StatusIs(absl::StatusCode::kInternal, AllOf(HasSubstr(absl::StrCat("'", node, "'")), HasSubstr(why)));
}

TEST(VerifyBoxedGraphTest, AcceptsWhatThePassesMake) { EXPECT_OK(Verify(Good())); }

TEST(VerifyBoxedGraphTest, NoticesAMissingPlacement) {
  Graph graph = Good();
  Mutable(graph, "relu").placement.reset();
  EXPECT_THAT(Verify(graph), Refused("relu", "no placement"));
}

TEST(VerifyBoxedGraphTest, NoticesAMissingDist) {
  Graph graph = Good();
  graph.value(Mutable(graph, "relu").outputs[0]).dist.reset();
  EXPECT_THAT(Verify(graph), Refused("relu", "no dist"));
}

TEST(VerifyBoxedGraphTest, NoticesAReaderElsewhere) {
  Graph graph = Good();
  Node& relu = Mutable(graph, "relu");
  relu.placement = Placement({{"dp", 2}}, {1, 0});
  graph.value(relu.outputs[0]).dist->placement = *relu.placement;
  EXPECT_THAT(Verify(graph), Refused("relu", "but lies on"));
}

TEST(VerifyBoxedGraphTest, NoticesALayoutThatIsNoSignature) {
  Graph graph = Good();
  graph.value(Mutable(graph, "relu").outputs[0]).dist->sbp = {Sbp::Split(1)};
  EXPECT_THAT(Verify(graph), Refused("relu", "no signature"));
}

TEST(VerifyBoxedGraphTest, NoticesABoxingOfSeveralSteps) {
  Graph graph = Good();
  const std::string name = NamesOf(graph, "boxing").back();
  Node& boxing = Mutable(graph, name);
  // P(max) cannot become what it was to become.
  graph.value(boxing.outputs[0]).dist->sbp.assign(boxing.placement->axes().size(), Sbp::Partial(Reduction::kMax));
  graph.value(boxing.inputs[0]).dist->sbp.assign(graph.value(boxing.inputs[0]).dist->sbp.size(), Sbp::Partial());
  EXPECT_FALSE(Verify(graph).ok());
}

TEST(VerifyBoxedGraphTest, NoticesAnAnnotationThatIsLeft) {
  Graph graph = Good();
  Mutable(graph, "relu").op = "to";
  EXPECT_THAT(Verify(graph), Refused("relu", "not dissolved"));
}

TEST(VerifyBoxedGraphTest, NoticesAStepNodeThatReadsMicroBatches) {
  Graph graph = Good();
  Mutable(graph, "relu").rate = Rate::kStep;
  EXPECT_THAT(Verify(graph), Refused("relu", "once per step"));
}

}  // namespace
}  // namespace oneflow::testing
