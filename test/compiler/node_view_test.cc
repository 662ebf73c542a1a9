// NodeView: what a node has to do, whole and by rank; TryReplace: another op in its place, or nothing.
#include "compiler/node_view.h"

#include "test/compiler/passes/testing.h"

namespace oneflow::testing {
namespace {

// y = x w on two ranks, x[8,4] split by rows.
Graph Product(const std::string& op = "matmul") {
  const Placement placement = *Mesh::Create({{"dp", 2}})->Place({});
  Graph graph;
  const auto add = [&](const std::string& name, std::vector<ValueId> inputs, const TensorType& type, Sbp sbp) {
    Node node{.op = inputs.empty() ? "constant" : name, .name = name, .inputs = std::move(inputs)};
    node.placement = placement;
    const NodeId id = graph.AddNode(std::move(node), {type});
    graph.value(graph.node(id).outputs[0]).dist = DistType{placement, {sbp}};
    return graph.node(id).outputs[0];
  };
  const ValueId x = add("x", {}, {DType::kFloat32, {8, 4}}, Sbp::Split(0));
  const ValueId w = add("w", {}, {DType::kFloat32, {4, 16}}, Sbp::Broadcast());
  add(op, {x, w}, {DType::kFloat32, {8, 16}}, Sbp::Split(0));
  return graph;
}

TEST(NodeViewTest, WorkIsOfTheWholeOfTheLargestShardAndOfAnEvenShare) {
  const Graph graph = Product();
  const NodeView view(graph, 2, Ops());
  EXPECT_EQ(view.work().flops, 2 * 8 * 4 * 16);
  EXPECT_EQ(view.work().bytes, 4 * (8 * 4 + 4 * 16 + 8 * 16));
  EXPECT_EQ(view.largest_share().flops, 4 * 4 * 2 * 16);
  EXPECT_EQ(view.largest_share().bytes, 4 * (4 * 4 + 4 * 16 + 4 * 16));
  EXPECT_EQ(view.even_share(view.layout()).flops, view.largest_share().flops);
  EXPECT_EQ(view.even_share(view.layout()).bytes, view.largest_share().bytes);
  const Layout repeated = {{{Sbp::Broadcast()}, {Sbp::Broadcast()}}, {{Sbp::Broadcast()}}};
  EXPECT_EQ(view.even_share(repeated).flops, view.work().flops);
}

TEST(NodeViewTest, ALayoutIsOneOfTheSignatures) {
  const Graph graph = Product();
  const NodeView view(graph, 2, Ops());
  EXPECT_EQ(view.layout().ToString(), "(S(0)),(B)->(S(0))");
  EXPECT_OK(view.CheckLayout(view.layout(), *graph.node(2).placement));
  const Layout wrong = {{{Sbp::Split(0)}, {Sbp::Broadcast()}}, {{Sbp::Split(1)}}};
  EXPECT_THAT(view.CheckLayout(wrong, *graph.node(2).placement),
              StatusIs(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr("no signature S(0),B->S(1)")));
}

TEST(NodeViewTest, AnotherOpTakesThePlaceOnlyIfItGivesTheSame) {
  Graph graph = Product();
  const Node before = graph.node(2);
  Node with = before;
  with.op = "matmul_wgrad";  // of x and w: other types
  EXPECT_FALSE(TryReplace(graph, 2, with, Ops()));
  with.op = "no_such_op";
  EXPECT_FALSE(TryReplace(graph, 2, with, Ops()));
  with = before;
  with.attrs.Set("transpose_b", true);  // w would be [16,4]
  EXPECT_FALSE(TryReplace(graph, 2, with, Ops()));
  EXPECT_EQ(graph.node(2).op, "matmul");
  EXPECT_EQ(graph.node(2).attrs, before.attrs);
  with = before;
  with.attrs.Set("transpose_b", false);
  EXPECT_TRUE(TryReplace(graph, 2, with, Ops()));
  EXPECT_TRUE(graph.node(2).attrs.Has("transpose_b"));
  // The same types, in a layout that the op does not have: k is split in x alone.
  graph.value(graph.node(2).inputs[0]).dist->sbp = {Sbp::Split(1)};
  EXPECT_FALSE(TryReplace(graph, 2, before, Ops()));
}

}  // namespace
}  // namespace oneflow::testing
