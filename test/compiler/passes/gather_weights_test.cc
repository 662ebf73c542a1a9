#include <map>
#include <set>

#include "test/compiler/passes/testing.h"

namespace oneflow::testing {
namespace {

struct Gathering {
  int prefetch = 1;
  int64_t unit_bytes = 1;  // every weight by itself
  bool keeps = false;
};

CompileOptions Gathered(const Gathering& how, std::vector<Axis> axes = {{"dp", 2}}, int micro_batches = 1) {
  CompileOptions options = Options(std::move(axes), micro_batches);
  options.zero = ZeroOptions{
      .stage = 3, .axis = "dp", .prefetch = how.prefetch, .unit_bytes = how.unit_bytes, .keeps_gathered = how.keeps};
  return options;
}

absl::StatusOr<Graph> BoxedToGather(Graph graph, const CompileOptions& options) {
  VariableDists variables;
  return RunPasses(std::move(graph), options, Ops(), variables);
}

// By unit, the gathers of it.
std::map<int, std::vector<NodeId>> GathersByUnit(const Graph& graph) {
  std::map<int, std::vector<NodeId>> units;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    const bool gathers = node.unit >= 0 && graph.value(node.outputs[0]).dist->sbp[0].is_broadcast();
    if (gathers) units[node.unit].push_back(id);
  }
  return units;
}

// The nodes that read a value, those that only hand it on (casts of weights) followed.
std::vector<NodeId> ReadersOf(const Graph& graph, ValueId value) {
  std::vector<NodeId> readers;
  const std::vector<std::vector<NodeId>> consumers = graph.Consumers();
  for (const NodeId id : consumers[value]) {
    if (!Ops().Is(graph.node(id).op, OpKind::kCast)) {
      readers.push_back(id);
      continue;
    }
    const std::vector<NodeId> further = ReadersOf(graph, graph.node(id).outputs[0]);
    readers.insert(readers.end(), further.begin(), further.end());
  }
  return readers;
}

// Five layers of 32 x 32 between samples and classes.
Graph SevenProducts() {
  GraphBuilder b(Ops(), "train");
  const Samples samples = ReadSamples(b, 8);
  Tensor x = MatMul(samples.rows, Weight(b, "w0", {16, 32}));
  for (int i = 1; i <= 5; ++i) x = MatMul(Tanh(x), Weight(b, absl::StrCat("w", i), {32, 32}));
  x = Tanh(MatMul(Tanh(x), Weight(b, "w6", {32, 4})));
  const Tensor loss = ReduceMean(Mul(x, x));
  b.SetLoss(loss);
  Fetch(loss, "loss");
  return *b.Finish();
}

TEST(GatherWeightsTest, EveryUseHasAGatherOfItsOwn) {
  for (const int micro_batches : {1, 2}) {
    ASSERT_OK_AND_ASSIGN(const Graph graph, BoxedToGather(SevenProducts(), Gathered({}, {{"dp", 2}}, micro_batches)));
    const std::map<int, std::vector<NodeId>> units = GathersByUnit(graph);
    EXPECT_EQ(units.size(), 7u + 6) << "forward reads all seven, backward all but the first";
    for (const auto& [unit, gathers] : units) {
      ASSERT_EQ(gathers.size(), 1u);
      const Node& gather = graph.node(gathers[0]);
      EXPECT_EQ(gather.rate, micro_batches == 1 ? Rate::kStep : Rate::kMicroBatch);
      EXPECT_TRUE(Ops().Is(graph.node(graph.value(gather.inputs[0]).producer).op, OpKind::kVariable));
      const std::vector<NodeId> readers = ReadersOf(graph, gather.outputs[0]);
      ASSERT_EQ(readers.size(), 1u) << gather.name;
      EXPECT_EQ(PartOf(gather.role), PartOf(graph.node(readers[0]).role)) << gather.name;
    }
  }
}

// Gathers of unit k wait for the readers of unit k - 1 - prefetch; in a step of all micro-batches as in a ring.
TEST(GatherWeightsTest, NoMoreUnitsAreThereThanAreGatheredAhead) {
  for (const int prefetch : {0, 1, 2, 5, 40}) {
    SCOPED_TRACE(prefetch);
    ASSERT_OK_AND_ASSIGN(const Graph graph,
                         BoxedToGather(SevenProducts(), Gathered({.prefetch = prefetch}, {{"dp", 2}}, 2)));
    const std::map<int, std::vector<NodeId>> units = GathersByUnit(graph);
    const int n = static_cast<int>(units.size());
    ASSERT_EQ(n, 13);
    for (int unit = 0; unit < n; ++unit) {
      const int before = unit - 1 - prefetch;
      const Node& gather = graph.node(units.at(unit)[0]);
      const std::vector<ValueId>& waits = before >= 0 ? gather.after : gather.after_last;
      EXPECT_TRUE((before >= 0 ? gather.after_last : gather.after).empty());
      if (before < 0 && before + n < unit) {
        EXPECT_TRUE(waits.empty()) << "all units may be there";
        continue;
      }
      const Node& other = graph.node(units.at(before >= 0 ? before : before + n)[0]);
      std::set<NodeId> readers, waited;
      for (const NodeId reader : ReadersOf(graph, other.outputs[0])) readers.insert(reader);
      for (const ValueId value : waits) waited.insert(graph.value(value).producer);
      EXPECT_EQ(waited, readers) << "unit " << unit;
    }
  }
}

TEST(GatherWeightsTest, AUnitIsFullWhenItHasItsBytes) {
  // Weights of 2,048, five of 4,096 and 512 bytes, in the order in which they are read, then all but the first back.
  const std::pair<int64_t, size_t> kUnits[] = {{1, 13}, {4096, 11}, {4097, 7}, {1 << 20, 2}};
  for (const auto& [bytes, count] : kUnits) {
    ASSERT_OK_AND_ASSIGN(const Graph graph, BoxedToGather(SevenProducts(), Gathered({.unit_bytes = bytes})));
    EXPECT_EQ(GathersByUnit(graph).size(), count) << bytes;
  }
}

TEST(GatherWeightsTest, WhatIsKeptIsGatheredOnce) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, BoxedToGather(SevenProducts(), Gathered({.keeps = true}, {{"dp", 2}}, 2)));
  EXPECT_EQ(GathersByUnit(graph).size(), 7u);
}

TEST(GatherWeightsTest, AGraphWithoutALossGathersTooAndStage2DoesNot) {
  Graph forward = SevenProducts();
  forward.losses.clear();
  ASSERT_OK_AND_ASSIGN(const Graph graph, BoxedToGather(forward, Gathered({})));
  EXPECT_EQ(GathersByUnit(graph).size(), 7u);
  CompileOptions stage2 = Gathered({});
  stage2.zero->stage = 2;
  ASSERT_OK_AND_ASSIGN(const Graph once, BoxedToGather(SevenProducts(), stage2));
  EXPECT_TRUE(GathersByUnit(once).empty());
}

TEST(GatherWeightsTest, TheRoundedWeightTravels) {
  CompileOptions options = Gathered({});
  options.precision.compute = DType::kBFloat16;
  ASSERT_OK_AND_ASSIGN(const Graph graph, BoxedToGather(SevenProducts(), options));
  for (const auto& [unit, gathers] : GathersByUnit(graph)) {
    for (const NodeId id : gathers) EXPECT_EQ(graph.value(graph.node(id).outputs[0]).type.dtype, DType::kBFloat16);
  }
  EXPECT_EQ(GathersByUnit(graph).size(), 13u);
}

// A weight that two layers read is gathered where each of them reads it.
TEST(GatherWeightsTest, TiedWeightsAreGatheredForEachUse) {
  GraphBuilder b(Ops(), "train");
  const Samples samples = ReadSamples(b, 8);
  const Tensor tied = Weight(b, "tied", {16, 16});
  Tensor x = MatMul(samples.rows, tied);
  x = MatMul(Tanh(x), Weight(b, "between", {16, 16}));
  x = MatMul(Tanh(x), tied);
  const Tensor loss = ReduceMean(Mul(x, x));
  b.SetLoss(loss);
  ASSERT_OK_AND_ASSIGN(const Graph graph, BoxedToGather(*b.Finish(), Gathered({})));
  int of_tied = 0;
  for (const auto& [unit, gathers] : GathersByUnit(graph)) {
    for (const NodeId id : gathers) {
      of_tied += graph.node(graph.value(graph.node(id).inputs[0]).producer).name == "tied";
    }
  }
  EXPECT_EQ(of_tied, 3) << "twice forward, once for the gradient of its second input";
}

}  // namespace
}  // namespace oneflow::testing
