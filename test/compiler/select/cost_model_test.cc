#include "compiler/select/cost_model.h"

#include "sbp/device_kinds.h"
#include "test/compiler/passes/testing.h"

namespace oneflow::testing {
namespace {

const Placement kTwo({{"tp", 2}}, {0, 1});

TEST(CostModelTest, BoxingBetweenEqualTypesIsFree) {
  const Topology topology = OneHost(2, 1);
  CostModel costs(topology);
  const int type = costs.TypeId({DType::kFloat32, {64, 64}});
  const int split = costs.DistId({kTwo, {Sbp::Split(0)}}), whole = costs.DistId({kTwo, {Sbp::Broadcast()}});
  EXPECT_EQ(costs.Boxing(type, split, split), 0);
  EXPECT_GT(costs.Boxing(type, split, whole), costs.Boxing(type, whole, split));
  EXPECT_GT(costs.Boxing(type, whole, split), 0);
}

// From a scalar, which shares a bucket with others, to a tensor that fills one alone.
TEST(CostModelTest, WhatTravelsInABucketPaysOfItsBeginningAsItFillsIt) {
  const Topology topology = OneHost(2, 1);
  const double act = topology.device().act_s;
  CostModel costs(topology);
  const int addends = costs.DistId({kTwo, {Sbp::Partial()}}), whole = costs.DistId({kTwo, {Sbp::Broadcast()}});
  double share = 0;
  for (const int64_t elements : {1, 1 << 10, 1 << 18, 1 << 20, 1 << 24}) {
    const int type = costs.TypeId({DType::kFloat32, {elements}});
    const double alone = costs.Boxing(type, addends, whole),
                 together = costs.Boxing(type, addends, whole, CostModel::Travel::kInBucket);
    EXPECT_LE(together, alone) << elements;
    EXPECT_GT(alone, act);
    EXPECT_GE(together / alone, share) << elements;
    share = together / alone;
  }
  const int scalar = costs.TypeId({DType::kFloat32, {1}}), large = costs.TypeId({DType::kFloat32, {1 << 24}});
  EXPECT_LT(costs.Boxing(scalar, addends, whole, CostModel::Travel::kInBucket),
            costs.Boxing(scalar, addends, whole) / 4);
  EXPECT_DOUBLE_EQ(costs.Boxing(large, addends, whole, CostModel::Travel::kInBucket),
                   costs.Boxing(large, addends, whole));
}

TEST(CostModelTest, WhatCannotBeBoxedIsImpossible) {
  const Topology topology = OneHost(4, 1);
  CostModel costs(topology);
  const Placement four({{"dp", 2}, {"tp", 2}}, {0, 1, 2, 3});
  const int type = costs.TypeId({DType::kFloat32, {64, 64}});
  const int mixed = costs.DistId({four, {Sbp::Partial(), Sbp::Partial(Reduction::kMax)}});
  const int whole = costs.DistId({four, {Sbp::Broadcast(), Sbp::Broadcast()}});
  for (const CostModel::Travel travel : {CostModel::Travel::kAlone, CostModel::Travel::kInBucket}) {
    EXPECT_EQ(costs.Boxing(type, mixed, whole, travel), CostModel::kImpossible);
  }
}

// As the data sheet says: fifteen times as fast on this device.
TEST(CostModelTest, AProductOfNarrowOperandsTakesTheTimeOfNarrowProducts) {
  const Topology topology = *Topology::Create(1, 1, {{.device = UsualDevice(DeviceKind::kCuda)}});
  const CostModel costs(topology);
  const auto price = [&](DType dtype) {
    GraphBuilder b(Ops(), "g");
    const Tensor a = b.Variable("a", {dtype, {8192, 8192}}, "zeros"),
                 w = b.Variable("w", {dtype, {8192, 8192}}, "zeros");
    MatMul(a, w);
    Graph graph = *b.Finish();
    Node& node = graph.node(graph.FindNode("matmul"));
    node.placement = Placement({}, {0});
    return costs.Compute(graph, node, *Ops().Find("matmul"), {{{}, {}}, {{}}});
  };
  const double full = price(DType::kFloat32);
  for (const DType narrow : {DType::kBFloat16, DType::kFloat16}) {
    EXPECT_LT(price(narrow), full / 10) << Name(narrow);
    EXPECT_GT(price(narrow), full / 20) << Name(narrow);
  }
}

TEST(CostModelTest, SplittingAnOpDividesItsTimeAndReplicatingItDoesNot) {
  GraphBuilder b(Ops(), "g");
  MatMul(ReadSamples(b, 64).rows, Weight(b, "w", {16, 64}));
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  Node& node = graph.node(graph.FindNode("matmul"));
  const Topology topology = OneHost(2, 1);
  const CostModel costs(topology);
  const NdSbp whole{Sbp::Broadcast()}, rows{Sbp::Split(0)};
  node.placement = Placement({}, {0});
  const double alone = costs.Compute(graph, node, *Ops().Find("matmul"), {{{}, {}}, {{}}});
  node.placement = kTwo;
  EXPECT_DOUBLE_EQ(costs.Compute(graph, node, *Ops().Find("matmul"), {{whole, whole}, {whole}}), alone);
  const double split = costs.Compute(graph, node, *Ops().Find("matmul"), {{rows, whole}, {rows}});
  EXPECT_GT(split, alone / 2);  // the weight is read whole
  EXPECT_LT(split, alone * 0.7);
}

// What makes a tensor of nothing, or of a smaller one, has split outputs and no split input. A second per operation and
// memory that takes no time.
TEST(CostModelTest, RanksShareTheWorkOfOutputsAlone) {
  HostGroup host{.devices = 2};
  host.device.f32_flops = 1;
  host.device.memory_bytes_per_s = 1e18;
  const Topology topology = *Topology::Create(2, 2, {host});
  const CostModel costs(topology);
  GraphBuilder b(Ops(), "g");
  BroadcastTo(Weight(b, "w", {1, 8}), {64, 8});
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  Node& node = graph.node(graph.FindNode("broadcast_to"));
  node.placement = kTwo;
  const NdSbp whole{Sbp::Broadcast()}, rows{Sbp::Split(0)};
  const OpDef& op = *Ops().Find("broadcast_to");
  EXPECT_NEAR(costs.Compute(graph, node, op, {{whole}, {whole}}), 64 * 8, 1e-6);
  EXPECT_NEAR(costs.Compute(graph, node, op, {{whole}, {rows}}), 64 * 8 / 2, 1e-6);
}

// Seconds are those of the transfers, an act's, and of writing what arrives.
TEST(CostModelTest, ABoxingPaysForTransfersForItsActAndForWhatItWrites) {
  HostGroup host{.devices = 2};
  host.device.act_s = 0.25;
  host.device.memory_bytes_per_s = 1000;
  host.device.same_process = {1.0, 1.0 / 1e4};
  const Topology topology = *Topology::Create(2, 2, {host});
  CostModel costs(topology);
  const int type = costs.TypeId({DType::kFloat32, {1000}});
  const int split = costs.DistId({kTwo, {Sbp::Split(0)}}), whole = costs.DistId({kTwo, {Sbp::Broadcast()}});
  EXPECT_NEAR(costs.Boxing(type, split, whole), (1.0 + 2000 / 1e4) + 0.25 + 4000 / 1e3, 1e-9);
}

// In a ring each rank has as much to compute as by heads. What goes around takes time of processors, which copy it
// themselves; devices with queues for copies hide it.
TEST(CostModelTest, ARingTakesTheTimeOfCopiesWhereCoresMakeThem) {
  GraphBuilder b(Ops(), "g");
  const Tensor q = b.Variable("q", {DType::kFloat32, {1, 16384, 256}}, "zeros");
  Attention(q, q, q, /*heads=*/4, /*causal=*/false);
  Graph graph = *b.Finish();
  Node& node = graph.node(graph.FindNode("attention"));
  node.placement = Placement({{"cp", 4}}, {0, 1, 2, 3});
  const auto ring_of_heads = [&](DeviceKind device) {
    const Topology topology = *Topology::Create(4, 1, {{.devices = 4, .device = UsualDevice(device)}});
    const CostModel costs(topology);
    const auto price = [&](int dim, int of_lse) {
      const NdSbp split = {Sbp::Split(dim)};
      return costs.Compute(graph, node, *Ops().Find("attention"),
                           {{split, split, split}, {split, {Sbp::Split(of_lse)}}});
    };
    return price(1, 2) / price(2, 1);
  };
  EXPECT_GT(ring_of_heads(DeviceKind::kCpu), 1.001);
  EXPECT_DOUBLE_EQ(ring_of_heads(DeviceKind::kCuda), 1);
}

}  // namespace
}  // namespace oneflow::testing
