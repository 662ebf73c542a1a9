#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "compiler/lower/compile.h"
#include "compiler/lower/memory_cap.h"
#include "oneflow_core/tiers.h"
#include "proto/plan.pb.h"
#include "test/compiler/passes/testing.h"

namespace oneflow::testing {
namespace {

using What = OffloadOptions::What;

// Layers of 64 x 64, of samples, without biases; all of them with the first, which is smaller, and the last, of so many
// columns.
Graph Products(int layers, int64_t columns = 4) {
  GraphBuilder b(Ops(), "train");
  const Samples samples = ReadSamples(b, 8);
  Tensor x = MatMul(samples.rows, Weight(b, "w0", {16, 64}));
  for (int i = 1; i < layers - 1; ++i) x = MatMul(Tanh(x), Weight(b, absl::StrCat("w", i), {64, 64}));
  x = Tanh(MatMul(Tanh(x), Weight(b, "last", {64, columns})));
  const Tensor loss = ReduceMean(Mul(x, x));
  b.SetLoss(loss);
  Fetch(loss, "loss");
  return *b.Finish();
}

OffloadOptions OnDisk(What what, int prefetch, int64_t unit_bytes = 1) {
  return {.what = what, .tier = FindTier("disk"), .prefetch = prefetch, .unit_bytes = unit_bytes};
}

CompileOptions WithOffload(std::vector<OffloadOptions> offload) {
  CompileOptions options = Options({});
  options.optimizer.rule = "adamw";
  options.offload = std::move(offload);
  return options;
}

absl::StatusOr<Graph> Offloaded(const CompileOptions& options, int64_t columns = 4) {
  VariableDists variables;
  return RunPasses(Products(12, columns), options, Ops(), variables);
}

std::vector<NodeId> OfKind(const Graph& graph, OpKind kind) {
  std::vector<NodeId> nodes;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    if (Ops().Is(graph.node(id).op, kind)) nodes.push_back(id);
  }
  return nodes;
}

bool Has(const std::vector<ValueId>& values, ValueId value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

TEST(OffloadTest, WhatAnUpdateOverwritesIsLoadedAndStored) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, Offloaded(WithOffload({OnDisk(What::kOptimizer, 1)}), /*columns=*/64));
  std::map<NodeId, NodeId> load_of, store_of;  // by variable
  for (const NodeId id : OfKind(graph, OpKind::kLoad)) {
    const NodeId variable = graph.value(graph.node(id).inputs[0]).producer;
    EXPECT_EQ(graph.node(variable).attrs.String("tier"), "disk");
    EXPECT_TRUE(load_of.emplace(variable, id).second) << "once";
  }
  for (const NodeId id : OfKind(graph, OpKind::kStore)) {
    store_of.emplace(graph.value(graph.node(id).inputs[0]).producer, id);
  }
  EXPECT_EQ(load_of.size(), 24u) << "two moments of each weight";
  ASSERT_EQ(store_of.size(), load_of.size());
  for (const auto& [variable, load] : load_of) {
    const ValueId loaded = graph.node(load).outputs[0];
    EXPECT_EQ(graph.node(store_of.at(variable)).inputs[1], loaded);
    const std::vector<NodeId> users = graph.Consumers()[loaded];
    ASSERT_EQ(users.size(), 2u) << "the update and the store";
    for (const NodeId user : users) EXPECT_EQ(graph.node(user).unit, graph.node(load).unit);
  }
}

// In slots, of which there are no more than all rounds of twelve units fill.
TEST(OffloadTest, UnitsWaitForOneAnother) {
  for (const auto& [prefetch, slots] : {std::pair(0, 1), {1, 2}, {3, 4}, {4, 4}, {6, 6}, {30, 12}}) {
    SCOPED_TRACE(prefetch);
    ASSERT_OK_AND_ASSIGN(const Graph graph,
                         Offloaded(WithOffload({OnDisk(What::kOptimizer, prefetch)}), /*columns=*/64));
    std::map<int, std::vector<ValueId>> stored;  // by unit
    for (const NodeId id : OfKind(graph, OpKind::kStore)) {
      stored[graph.node(id).unit].push_back(graph.node(id).outputs[0]);
    }
    ASSERT_EQ(stored.size(), 12u);
    const int first = stored.begin()->first;
    for (const NodeId id : OfKind(graph, OpKind::kLoad)) {
      const Node& load = graph.node(id);
      SCOPED_TRACE(load.name);
      const int unit = load.unit - first, last = unit + (11 - unit) / slots * slots;
      for (const auto& [number, values] : stored) {
        for (const ValueId done : values) {
          EXPECT_EQ(Has(load.after, done), number - first == unit - slots);
          EXPECT_EQ(Has(load.after_last, done), unit < slots && number - first == last && last != unit);
        }
      }
      const bool waits_for_gradients = std::any_of(load.after.begin(), load.after.end(), [&](ValueId value) {
        return IsBackward(graph.node(graph.value(value).producer));
      });
      EXPECT_EQ(waits_for_gradients, unit + 1 == slots || (unit == 0 && slots == 2)) << "others: beside forward";
    }
  }
}

// A model with two layers that are as large as many others, each with two moments of as many bytes.
absl::StatusOr<Graph> WithLargeLayers() {
  GraphBuilder b(Ops(), "train");
  const Samples samples = ReadSamples(b, 8);
  Tensor x = MatMul(Tanh(MatMul(samples.rows, Weight(b, "first", {16, 640}))), Weight(b, "w0", {640, 64}));
  for (int i = 1; i < 10; ++i) x = MatMul(Tanh(x), Weight(b, absl::StrCat("w", i), {64, 64}));
  const Tensor loss = ReduceMean(Mul(x, x));
  b.SetLoss(loss);
  Fetch(loss, "loss");
  return b.Finish();
}

// Of two of ten units' bytes each the second one is loaded two units before its own, in an act of its own.
TEST(OffloadTest, LargeVariablesAreLoadedEarlier) {
  constexpr int64_t kLayerBytes = 64 * 64 * 4;
  ASSERT_OK_AND_ASSIGN(const Graph made, WithLargeLayers());
  for (const int prefetch : {0, 1}) {
    VariableDists variables;
    const CompileOptions options = WithOffload({OnDisk(What::kOptimizer, prefetch, kLayerBytes)});
    ASSERT_OK_AND_ASSIGN(const Graph graph, RunPasses(made, options, Ops(), variables));
    std::map<std::string, NodeId> copies;
    for (const OpKind kind : {OpKind::kLoad, OpKind::kStore}) {
      for (const NodeId id : OfKind(graph, kind)) copies[graph.node(id).name] = id;
    }
    const Node &other = graph.node(copies.at("w0/adam_m/load")), &load = graph.node(copies.at("w0/adam_v/load"));
    const auto waits_for = [&](const char* store) { return Has(load.after, graph.node(copies.at(store)).outputs[0]); };
    // Backward goes from w9 to w0. Without loads ahead of time a load waits for the unit before.
    EXPECT_EQ(waits_for("w1/adam_m/store"), prefetch == 0);
    EXPECT_EQ(waits_for("w4/adam_m/store"), prefetch == 1) << "two units before the second one before";
    EXPECT_EQ(load.unit == other.unit, prefetch == 0);
  }
}

// Stores of the last units go on beside the next step. The second half of its forward waits for large ones, and for all
// where no two units are to be there.
TEST(OffloadTest, ForwardWaitsForTheLastStores) {
  const std::map<int, std::vector<std::string>> waited_for = {{0, {"first"}}, {1, {"first", "w0"}}, {15, {}}};
  ASSERT_OK_AND_ASSIGN(const Graph made, WithLargeLayers());
  for (const auto& [prefetch, names] : waited_for) {
    VariableDists variables;
    ASSERT_OK_AND_ASSIGN(const Graph graph,
                         RunPasses(made, WithOffload({OnDisk(What::kOptimizer, prefetch)}), Ops(), variables));
    std::set<std::string> found, expected;
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      if (!IsForward(graph.node(id))) continue;
      for (const ValueId value : graph.node(id).after_last) found.insert(graph.node(graph.value(value).producer).name);
    }
    for (const std::string& name : names) {
      for (const char* moment : {"/adam_m/store", "/adam_v/store"}) expected.insert(name + moment);
    }
    EXPECT_EQ(found, expected) << prefetch;
  }
}

// The large ones take the place of 14 of 16 slots, and are loaded between the first unit and the second.
TEST(OffloadTest, LargeVariablesThatHaveRoomAreLoadedBesideForward) {
  ASSERT_OK_AND_ASSIGN(const Graph made, WithLargeLayers());
  VariableDists variables;
  ASSERT_OK_AND_ASSIGN(const Graph graph,
                       RunPasses(made, WithOffload({OnDisk(What::kOptimizer, 15)}), Ops(), variables));
  std::map<std::string, const Node*> loads;
  for (const NodeId id : OfKind(graph, OpKind::kLoad)) loads[graph.node(id).name] = &graph.node(id);
  const std::vector<std::string> order = {"w9/adam_m/load",    "w0/adam_m/load",    "w0/adam_v/load",
                                          "first/adam_m/load", "first/adam_v/load", "w8/adam_m/load"};
  for (size_t i = 1; i < order.size(); ++i) {
    EXPECT_TRUE(Has(loads.at(order[i])->after, loads.at(order[i - 1])->outputs[0])) << order[i];
  }
  for (size_t i = 1; i + 1 < order.size(); ++i) {
    EXPECT_TRUE(loads.at(order[i])->after_last.empty());
    for (const ValueId value : loads.at(order[i])->after) {
      EXPECT_TRUE(Ops().Is(graph.node(graph.value(value).producer).op, OpKind::kLoad)) << order[i];
    }
  }
}

// However many units may be there, an update of one need not wait for backward of all.
TEST(OffloadTest, BackwardGoesUnitByUnit) {
  for (const int prefetch : {0, 1, 30}) {
    ASSERT_OK_AND_ASSIGN(const pb::PlanSet plan,
                         Compile({Products(12, 64)}, WithOffload({OnDisk(What::kOptimizer, prefetch)}), Ops()));
    int parts = 0;
    for (const pb::ClassActor& actor : plan.plans(0).actors()) parts += absl::StartsWith(actor.name(), "backward");
    EXPECT_GE(parts, 12) << prefetch;
  }
}

TEST(OffloadTest, SmallVariablesAndNumbersStay) {
  OffloadOptions large = OnDisk(What::kOptimizer, 1);
  large.least_bytes = 64 * 64 * 4;
  ASSERT_OK_AND_ASSIGN(const Graph graph, Offloaded(WithOffload({large})));
  EXPECT_EQ(OfKind(graph, OpKind::kLoad).size(), 20u)
      << "neither the first and the last weight, nor the number of the step";
}

// No gradient goes through the first weight. Where gradients wait for one another, an update loads its weight itself;
// else it overwrites what backward has loaded.
TEST(OffloadTest, WeightsAreLoadedForEachUse) {
  for (const double clip_norm : {0.0, 1.0}) {
    CompileOptions options = WithOffload({OnDisk(What::kWeights, 0)});
    options.optimizer.clip_norm = clip_norm;
    ASSERT_OK_AND_ASSIGN(const Graph graph, Offloaded(options));
    std::map<StepPart, int> loads;
    for (const NodeId id : OfKind(graph, OpKind::kLoad)) ++loads[PartOf(graph.node(id).role)];
    EXPECT_EQ(loads,
              (std::map<StepPart, int>{
                  {StepPart::kForward, 12}, {StepPart::kBackward, 11}, {StepPart::kUpdate, clip_norm == 0 ? 1 : 12}}));
    const std::vector<NodeId> stores = OfKind(graph, OpKind::kStore);
    EXPECT_EQ(stores.size(), 12u);
    for (const NodeId id : stores) {
      const std::vector<ValueId>& inputs = graph.node(id).inputs;
      const Node& load = graph.node(graph.value(inputs[1]).producer);
      EXPECT_EQ(load.inputs, std::vector<ValueId>{inputs[0]}) << graph.node(id).name << " stores " << load.name;
    }
  }
}

// Gradients that a norm clips together are stored as they come, and loaded for their updates.
TEST(OffloadTest, GradientsThatWaitForOthersAreStored) {
  CompileOptions options = WithOffload({OnDisk(What::kGradients, 1)});
  options.optimizer.clip_norm = 1;
  ASSERT_OK_AND_ASSIGN(const Graph graph, Offloaded(options));
  const std::vector<NodeId> stores = OfKind(graph, OpKind::kStore), loads = OfKind(graph, OpKind::kLoad);
  EXPECT_EQ(stores.size(), 11u) << "all but the last, which is clipped at once";
  EXPECT_EQ(loads.size(), 11u);
  std::set<ValueId> stored;
  int waiting = 0;  // nodes of backward, for stores
  for (const NodeId id : stores) {
    stored.insert(graph.node(id).outputs[0]);
    EXPECT_TRUE(IsBackward(graph.node(graph.value(graph.node(id).inputs[0]).producer)));
  }
  const std::vector<std::vector<NodeId>> consumers = graph.Consumers();
  for (const NodeId id : loads) {
    EXPECT_EQ(stored.count(graph.node(id).inputs[0]), 1u);
    for (const NodeId reader : consumers[graph.node(id).outputs[0]]) {
      EXPECT_EQ(graph.node(reader).op, "adamw_update");
    }
  }
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const auto& after = graph.node(id).after;
    const auto is_store = [&](ValueId value) { return stored.count(value) > 0; };
    waiting += IsBackward(graph.node(id)) && std::any_of(after.begin(), after.end(), is_store);
  }
  EXPECT_GT(waiting, 5) << "backward does not run ahead of them";
}

TEST(OffloadTest, GradientsThatNothingHoldsUpStay) {
  const auto warnings_of = [](const CompileOptions& options) {
    VariableDists variables;
    std::vector<std::string> warnings;
    EXPECT_OK(RunPasses(Products(12), options, Ops(), variables, nullptr, &warnings));
    return warnings;
  };
  CompileOptions options = WithOffload({OnDisk(What::kGradients, 1)});
  ASSERT_OK_AND_ASSIGN(const Graph graph, Offloaded(options));
  EXPECT_TRUE(OfKind(graph, OpKind::kStore).empty());
  EXPECT_THAT(warnings_of(options), ::testing::ElementsAre(::testing::HasSubstr("no large one waits for others")));
  options.optimizer.clip_norm = 1;
  EXPECT_THAT(warnings_of(options), ::testing::IsEmpty());
  options.micro_batches = 2;
  EXPECT_THAT(warnings_of(options), ::testing::ElementsAre(::testing::HasSubstr("sums over micro-batches")));
}

// Of many layers those of a few are there.
TEST(OffloadTest, StoredGradientsTakeLessMemory) {
  CompileOptions options = WithOffload({OnDisk(What::kOptimizer, 0)});
  options.optimizer.clip_norm = 1;
  // Of a layer.
  const auto bytes = [&]() -> absl::StatusOr<int64_t> {
    OF_ASSIGN_OR_RETURN(const pb::PlanSet few, Compile({Products(12)}, options, Ops()));
    OF_ASSIGN_OR_RETURN(const pb::PlanSet many, Compile({Products(24)}, options, Ops()));
    return (MostBytesOfDevice(many) - MostBytesOfDevice(few)) / 12;
  };
  constexpr int64_t kWeight = int64_t{64} * 64 * sizeof(float);
  ASSERT_OK_AND_ASSIGN(const int64_t whole, bytes());
  EXPECT_GE(whole, 2 * kWeight) << "a weight and its gradient";
  options.offload.push_back(OnDisk(What::kGradients, 0));
  ASSERT_OK_AND_ASSIGN(const int64_t stored, bytes());
  EXPECT_LE(stored, kWeight * 5 / 4);
}

TEST(OffloadTest, TheLastUnitsOfForwardStay) {
  for (const int prefetch : {0, 2}) {
    ASSERT_OK_AND_ASSIGN(const Graph graph, Offloaded(WithOffload({OnDisk(What::kActivations, prefetch)})));
    const std::vector<NodeId> stores = OfKind(graph, OpKind::kStore), loads = OfKind(graph, OpKind::kLoad);
    EXPECT_EQ(stores.size(), loads.size());
    EXPECT_GT(stores.size(), 8u);
    std::set<ValueId> stored;
    for (const NodeId id : stores) stored.insert(graph.node(id).inputs[0]);
    const std::vector<std::vector<NodeId>> consumers = graph.Consumers();
    int kept = 0;
    for (ValueId value = 0; value < graph.num_values(); ++value) {
      const NodeId maker = graph.value(value).producer;
      const bool of_forward = IsForward(graph.node(maker)) && Ops().Is(graph.node(maker).op, OpKind::kCompute);
      const bool read = std::any_of(consumers[value].begin(), consumers[value].end(),
                                    [&](NodeId id) { return IsBackward(graph.node(id)); });
      kept += of_forward && read;
      EXPECT_FALSE(of_forward && read && stored.count(value) > 0) << "backward reads what was loaded";
    }
    EXPECT_LE(kept, 1 + prefetch);
  }
}

// Of one class of ranks.
struct Memory {
  int64_t device = 0, disk = 0;
};
Memory MemoryOf(const CompileOptions& options) {
  const absl::StatusOr<pb::PlanSet> plan = Compile({Products(42)}, options, Ops());
  EXPECT_OK(plan.status());
  if (!plan.ok()) return {};
  return {BytesOfZones(plan->classes(0)), BytesOfZone(plan->classes(0), kDiskZone)};
}

TEST(OffloadTest, DevicesNeedLessMemory) {
  const Memory plain = MemoryOf(WithOffload({}));
  EXPECT_EQ(plain.disk, 0);
  Memory before = plain;
  for (const int prefetch : {3, 1, 0}) {
    const Memory memory = MemoryOf(WithOffload({OnDisk(What::kOptimizer, prefetch)}));
    EXPECT_LT(memory.device, before.device) << prefetch;
    EXPECT_EQ(memory.disk, 2 * (4096 + 40 * 16384 + 4096)) << "whole blocks";
    before = memory;
  }
  EXPECT_LT(before.device, plain.device - 2 * 36 * 16384) << "a few units of forty are there";
  const Memory both = MemoryOf(WithOffload({OnDisk(What::kOptimizer, 0), OnDisk(What::kWeights, 0)}));
  EXPECT_LT(both.device, before.device - 30 * 16384);
  EXPECT_EQ(both.disk, 3 * (4096 + 40 * 16384 + 4096));
}

// So that stores, for which backward soon waits, begin as early as they can.
TEST(OffloadTest, StoredUpdatesHaveTheirTurnBeforeBackward) {
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet plan,
                       Compile({Products(42)}, WithOffload({OnDisk(What::kOptimizer, 1)}), Ops()));
  std::vector<int> updates, backward;
  for (const pb::ClassActor& actor : plan.plans(0).actors()) {
    if (actor.queue() != kComputeQueue) continue;
    if (absl::StartsWith(actor.name(), "update.")) updates.push_back(actor.priority());
    if (absl::StartsWith(actor.name(), "backward.")) backward.push_back(actor.priority());
  }
  ASSERT_GT(backward.size(), 30u);
  const int most = *std::max_element(backward.begin(), backward.end());
  const auto first = std::count_if(updates.begin(), updates.end(), [most](int priority) { return priority > most; });
  EXPECT_GT(first, 30) << "all that overwrite states";
}

TEST(OffloadTest, AVariableMaySayItselfWhereItLies) {
  GraphBuilder b(Ops(), "train");
  const Tensor w = Weight(b, "w", {16, 64}).KeptIn("host");
  const Tensor x = Tanh(MatMul(Tanh(MatMul(ReadSamples(b, 8).rows, w)), Weight(b, "other", {64, 4})));
  const Tensor loss = ReduceMean(Mul(x, x));
  b.SetLoss(loss);
  Fetch(loss, "loss");
  VariableDists variables;
  ASSERT_OK_AND_ASSIGN(const Graph boxed, RunPasses(*b.Finish(), WithOffload({}), Ops(), variables));
  EXPECT_EQ(OfKind(boxed, OpKind::kLoad).size(), 2u) << "for forward and the update";
  EXPECT_EQ(OfKind(boxed, OpKind::kStore).size(), 1u);
}

TEST(OffloadTest, OnlyVariablesAreKeptAndOnlyInTiers) {
  GraphBuilder tape(Ops(), "train");
  Weight(tape, "w", {16, 64}).KeptIn("tape");
  EXPECT_THAT(tape.Finish(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'tape', which is no tier")));
  GraphBuilder value(Ops(), "train");
  Tanh(Weight(value, "w", {16, 64})).KeptIn("disk");
  EXPECT_THAT(value.Finish(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'disk', but only variables are kept")));
}

}  // namespace
}  // namespace oneflow::testing
