#include <map>
#include <set>

#include "test/compiler/passes/testing.h"

namespace oneflow::testing {
namespace {

constexpr int kProducts = 6;

// Layers of 32 x 32, each of which has a gradient of 4,096 bytes.
Graph SixLayers() {
  GraphBuilder b(Ops(), "train");
  Tensor x = MatMul(ReadSamples(b, 8).rows, Weight(b, "first", {16, 32}));
  for (int i = 1; i < kProducts; ++i) x = MatMul(Tanh(x), Weight(b, absl::StrCat("w", i), {32, 32}));
  x = Tanh(x);
  b.SetLoss(ReduceMean(Mul(x, x)));
  return *b.Finish();
}

CompileOptions WithParts(int stage, int micro_batches = 1, int64_t unit_bytes = 1) {
  CompileOptions options = Options({{"dp", 2}}, micro_batches);
  options.zero = ZeroOptions{.stage = stage, .axis = "dp", .unit_bytes = unit_bytes};
  return options;
}

absl::StatusOr<Graph> BoxedLayers(const CompileOptions& options) {
  VariableDists variables;
  return RunPasses(SixLayers(), options, Ops(), variables);
}

// By unit, in order, the reductions of it.
std::map<int, std::vector<NodeId>> ReductionsByUnit(const Graph& graph) {
  std::map<int, std::vector<NodeId>> units;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (node.unit < 0 || !graph.value(node.inputs[0]).dist->sbp[0].is_partial()) continue;
    units[node.unit].push_back(id);
  }
  return units;
}

// The reductions that what makes this gradient waits for.
std::set<NodeId> WaitsOf(const Graph& graph, NodeId reduction, std::vector<ValueId> Node::*list) {
  std::set<NodeId> waits;
  const NodeId maker = graph.value(graph.node(reduction).inputs[0]).producer;
  for (const ValueId value : graph.node(maker).*list) waits.insert(graph.value(value).producer);
  return waits;
}

TEST(ReduceGradientsTest, BackwardIsTwoUnitsAheadAtMost) {
  for (const int stage : {2, 3}) {
    for (const int micro_batches : {1, 2}) {
      SCOPED_TRACE(absl::StrCat("stage ", stage, ", ", micro_batches, " micro-batches"));
      ASSERT_OK_AND_ASSIGN(const Graph graph, BoxedLayers(WithParts(stage, micro_batches)));
      std::vector<NodeId> reductions;
      for (const auto& [unit, of_unit] : ReductionsByUnit(graph)) {
        ASSERT_EQ(of_unit.size(), 1u);
        reductions.push_back(of_unit[0]);
      }
      ASSERT_EQ(reductions.size(), static_cast<size_t>(kProducts));
      for (int i = 0; i < kProducts; ++i) {
        const std::set<NodeId> now = WaitsOf(graph, reductions[i], &Node::after),
                               last = WaitsOf(graph, reductions[i], &Node::after_last);
        EXPECT_EQ(now, i < 2 ? std::set<NodeId>() : std::set<NodeId>{reductions[i - 2]}) << i;
        const bool of_last = micro_batches > 1 && i < 2;
        EXPECT_EQ(last, of_last ? std::set<NodeId>{reductions[kProducts + i - 2]} : std::set<NodeId>()) << i;
      }
    }
  }
}

TEST(ReduceGradientsTest, UnitsAreFullWhenTheyHaveTheirBytes) {
  const std::pair<int64_t, size_t> kUnits[] = {{1, 6}, {4096, 6}, {4097, 3}, {1 << 20, 1}};
  for (const auto& [bytes, count] : kUnits) {
    ASSERT_OK_AND_ASSIGN(const Graph graph, BoxedLayers(WithParts(2, 1, bytes)));
    EXPECT_EQ(ReductionsByUnit(graph).size(), count) << bytes;
  }
}

TEST(ReduceGradientsTest, SumsOfAllMicroBatchesStayWhole) {
  CompileOptions once = WithParts(3, 2);
  once.zero->sums_once = true;
  ASSERT_OK_AND_ASSIGN(const Graph graph, BoxedLayers(once));
  EXPECT_TRUE(ReductionsByUnit(graph).empty());
  ASSERT_OK_AND_ASSIGN(const Graph stage1, BoxedLayers(WithParts(1)));
  EXPECT_TRUE(ReductionsByUnit(stage1).empty());
}

}  // namespace
}  // namespace oneflow::testing
