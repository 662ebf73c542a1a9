#include "oneflow_core/graph.h"

#include "oneflow_core/builder.h"
#include "oneflow_core/functional.h"
#include "oneflow_core/ops/ops.h"
#include "oneflow_core/verify.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

// %0 variable "w"   %1 relu   %2 exp(%1)   %3 add(%1, %1), reduced to the loss %4
Graph Example(const OpRegistry& ops) {
  GraphBuilder b(ops, "example");
  const Tensor w = b.Variable("w", {DType::kFloat32, {2, 3}}, "zeros");
  const Tensor y = Relu(w);
  Exp(y);
  b.SetLoss(ReduceSum(Add(y, y)));
  return *b.Finish();
}

class GraphTest : public ::testing::Test {
 protected:
  const OpRegistry ops_ = StandardOps();
  Graph graph_ = Example(ops_);
};

TEST_F(GraphTest, FindsNodesByNameAndValuesByReader) {
  EXPECT_EQ(graph_.FindNode("relu"), 1);
  EXPECT_EQ(graph_.FindNode("tanh"), -1);
  EXPECT_THAT(graph_.Consumers(),
              ElementsAre(ElementsAre(1), ElementsAre(2, 3, 3), IsEmpty(), ElementsAre(4), IsEmpty()));
}

TEST_F(GraphTest, RebuildDropsNodesAndRenumbers) {
  graph_.Rebuild({true, true, false, true, true});
  EXPECT_OK(VerifyGraph(graph_, ops_));
  EXPECT_EQ(graph_.num_nodes(), 4);
  EXPECT_EQ(graph_.num_values(), 4);
  EXPECT_EQ(graph_.FindNode("exp"), -1);
  EXPECT_THAT(graph_.node(graph_.FindNode("add")).inputs, ElementsAre(1, 1));
  EXPECT_THAT(graph_.losses, ElementsAre(3));
}

TEST_F(GraphTest, RebuildPutsReadersBehindWhatTheyRead) {
  // A pass appends a node and lets earlier ones read it.
  Node inserted{.op = "tanh", .name = "tanh", .inputs = {0}};
  const NodeId added = graph_.AddNode(std::move(inserted), {{DType::kFloat32, {2, 3}}});
  const ValueId result = graph_.node(added).outputs[0];
  graph_.node(1).inputs = {result};
  EXPECT_FALSE(VerifyGraph(graph_, ops_).ok());
  graph_.Rebuild(std::vector<bool>(graph_.num_nodes(), true));
  EXPECT_OK(VerifyGraph(graph_, ops_));
  EXPECT_LT(graph_.FindNode("tanh"), graph_.FindNode("relu"));
  ASSERT_TRUE(graph_.is_trained());
  EXPECT_EQ(graph_.node(graph_.value(graph_.losses[0]).producer).op, "reduce_sum");
}

TEST_F(GraphTest, RebuildRenumbersWhatNodesServeAndForgetsWhatIsDropped) {
  Node first{.op = "tanh", .name = "first", .inputs = {0}}, second = first;
  first.forward = 3;
  second.name = "second";
  second.forward = 2;  // is dropped
  graph_.AddNode(std::move(first), {{DType::kFloat32, {2, 3}}});
  const NodeId added = graph_.AddNode(std::move(second), {{DType::kFloat32, {2, 3}}});
  const int32_t served = graph_.node(3).serial, serial = graph_.node(added).serial;
  graph_.Rebuild({true, true, false, true, true, true, true});
  EXPECT_OK(VerifyGraph(graph_, ops_));
  EXPECT_EQ(graph_.node(graph_.node(graph_.FindNode("first")).forward).serial, served);
  EXPECT_EQ(graph_.node(graph_.FindNode("second")).forward, -1);
  EXPECT_EQ(graph_.node(graph_.FindNode("second")).serial, serial);  // moved, but the same node
}

TEST_F(GraphTest, AValueKeepsItsSerialWhateverMakesIt) {
  const NodeId added = graph_.AddNode({.op = "tanh", .name = "other", .inputs = {0}}, {{DType::kFloat32, {2, 3}}});
  const ValueId value = graph_.node(added).outputs[0];
  const int32_t serial = graph_.value(value).serial, first = graph_.value(0).serial;
  EXPECT_NE(serial, first);
  // The node before it makes it now.
  graph_.node(added).outputs.clear();
  graph_.node(1).outputs.push_back(value);
  graph_.value(value).producer = 1;
  graph_.value(value).output = 1;
  std::vector<bool> keep(graph_.num_nodes(), true);
  keep[added] = false;
  graph_.Rebuild(keep);
  EXPECT_EQ(graph_.value(graph_.node(1).outputs[1]).serial, serial);
  EXPECT_EQ(graph_.value(0).serial, first);
}

TEST_F(GraphTest, AWholeKnowsThePartsOfItsParts) {
  Node whole{.serial = 1}, part{.serial = 2, .parts = {5, 7}};
  Absorb(part, whole);
  Absorb(Node{.serial = 3}, whole);
  EXPECT_THAT(whole.parts, ElementsAre(2, 5, 7, 3));
}

TEST_F(GraphTest, RebuildKeepsWhatWaitsBehindWhatItWaitsFor) {
  graph_.node(1).after = {
      graph_.node(graph_.AddNode({.op = "exp", .name = "late", .inputs = {0}}, {{DType::kFloat32, {2, 3}}}))
          .outputs[0]};
  EXPECT_FALSE(VerifyGraph(graph_, ops_).ok());
  graph_.Rebuild(std::vector<bool>(graph_.num_nodes(), true));
  EXPECT_OK(VerifyGraph(graph_, ops_));
  const NodeId late = graph_.FindNode("late"), relu = graph_.FindNode("relu");
  EXPECT_THAT(graph_.node(relu).after, ElementsAre(graph_.node(late).outputs[0]));
  std::vector<bool> keep(graph_.num_nodes(), true);
  keep[late] = false;
  graph_.Rebuild(keep);
  EXPECT_OK(VerifyGraph(graph_, ops_));
  EXPECT_THAT(graph_.node(graph_.FindNode("relu")).after, IsEmpty());
}

TEST_F(GraphTest, NoNodeOnACycleIsDroppedSilently) {
  const NodeId relu = graph_.FindNode("relu");
  ASSERT_EQ(graph_.Sorted().size(), static_cast<size_t>(graph_.num_nodes()));
  graph_.node(relu).after = {graph_.node(relu).outputs[0]};
  EXPECT_LT(graph_.Sorted().size(), static_cast<size_t>(graph_.num_nodes()));
  EXPECT_DEATH(graph_.Rebuild(std::vector<bool>(graph_.num_nodes(), true)), "has a cycle");
}

TEST_F(GraphTest, FindsTheNearestSegmentOfAKind) {
  graph_.segments = {{"layers"}, {"attention", 0}, {"layers", 1}};
  EXPECT_EQ(graph_.SegmentOfKind(2, "layers"), 2);
  EXPECT_EQ(graph_.SegmentOfKind(2, "attention"), 1);
  EXPECT_EQ(graph_.SegmentOfKind(1, "layers"), 0);
  EXPECT_EQ(graph_.SegmentOfKind(0, "attention"), -1);
  EXPECT_EQ(graph_.SegmentOfKind(-1, "layers"), -1);
}

TEST_F(GraphTest, ErrorsNameNodeOpAndSource) {
  EXPECT_EQ(Where({.op = "relu", .name = "a", .source = "m.cc:3"}), "node 'a' (relu, m.cc:3)");
  EXPECT_EQ(Where({.op = "relu", .name = "a"}), "node 'a' (relu)");
}

}  // namespace
}  // namespace oneflow
