#include "compiler/plan/buckets.h"

#include <algorithm>
#include <string>
#include <vector>

#include "compiler/plan/chains.h"
#include "test/compiler/plan/graph_kit.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

// Two ranks on links on which a bucket is full when a rank gets `full` bytes of it.
Topology TwoRanks(int64_t full) {
  HostGroup host{.devices = 2};
  host.device.act_s = 1;
  host.device.same_process = {.alpha_s = 1, .beta_s_per_byte = 8.0 / static_cast<double>(full)};
  return *Topology::Create(2, 2, {host});
}

std::vector<std::string> ChainsOf(const Graph& graph, int64_t full) {
  absl::StatusOr<ChainGraph> chains = BuildChains(graph, Ops(), TwoRanks(full));
  EXPECT_OK(chains.status());
  std::vector<std::string> names;
  if (chains.ok()) {
    for (const Chain& chain : chains->chains) names.push_back(chain.name);
  }
  return names;
}

constexpr const char* kBroadcast = "[dp=2]{0,1}(B)";
constexpr const char* kPartial = "[dp=2]{0,1}(P)";
constexpr const char* kSplit = "[dp=2]{0,1}(S(0))";

// Backward makes gradients of four variables of 64 bytes, one behind the other; ranks update their halves.
Graph Backward() {
  GraphKit kit("g");
  std::vector<ValueId> variables, whole;
  for (const char* name : {"w0", "w1", "w2", "w3"}) variables.push_back(kit.Variable(name, {16}, kSplit));
  ValueId x = kit.Constant("x", {16}, kPartial);
  kit.Are(Role::kWeightGradient, Rate::kStep);
  for (const char* name : {"g3", "g2", "g1", "g0"}) {
    x = kit.Node1("neg", name, {x}, kPartial);
    whole.push_back(kit.Box(std::string("sum_") + name, x, kSplit));
  }
  kit.Are(Role::kUpdate, Rate::kStep);
  for (int i = 0; i < 4; ++i) {
    kit.Node("assign", std::string("set") + std::to_string(3 - i), {variables[3 - i], whole[i]}, {});
  }
  return kit.graph();
}

TEST(BucketsTest, FullBucketsLeaveWhileBackwardGoesOn) {
  EXPECT_THAT(ChainsOf(Backward(), 64),
              ElementsAre("backward.0 x (+2)", "backward.1 g1 (+1)", "boxing.1 sum_g3 (+1)", "update.2 set3 (+1)",
                          "boxing.2 sum_g1 (+1)", "update.3 set1 (+1)"));
}

// The update of the first bucket and the fourth gradient are of one level.
TEST(BucketsTest, BackwardDoesNotWaitForUpdates) {
  const Graph graph = Backward();
  ASSERT_OK_AND_ASSIGN(const ChainGraph chains, BuildChains(graph, Ops(), TwoRanks(1)));
  for (const Chain& chain : chains.chains) {
    const auto updates =
        std::count_if(chain.nodes.begin(), chain.nodes.end(), [&](NodeId id) { return IsUpdate(graph.node(id)); });
    EXPECT_TRUE(updates == 0 || updates == static_cast<int>(chain.nodes.size())) << chain.name;
  }
  EXPECT_EQ(chains.chains.size(), 3u * 4);
}

TEST(BucketsTest, GradientsThatDoNotOverlapAreOneBucketBehindBackward) {
  const Graph graph = Backward();
  ASSERT_OK_AND_ASSIGN(const ChainGraph chains, BuildChains(graph, Ops(), TwoRanks(1), /*schedule=*/nullptr,
                                                            /*micro_batches=*/1, /*overlaps_gradients=*/false));
  std::vector<std::string> names;
  for (const Chain& chain : chains.chains) names.push_back(chain.name);
  EXPECT_THAT(names, ElementsAre("backward.0 x (+4)", "boxing.1 sum_g3 (+3)", "update.2 set3 (+3)"));
}

TEST(BucketsTest, WhatFitsIntoOneBucketCutsNothing) {
  EXPECT_THAT(ChainsOf(Backward(), 1 << 20),
              ElementsAre("backward.0 x (+4)", "boxing.1 sum_g3 (+3)", "update.2 set3 (+3)"));
}

TEST(BucketsTest, CopiesOfVariablesComeInTheOrderInWhichTheyAreRead) {
  GraphKit kit("g");
  std::vector<ValueId> copies;
  for (const char* name : {"w0", "w1", "w2"}) {
    copies.push_back(kit.Box(std::string("all_") + name, kit.Variable(name, {16}, kSplit), kBroadcast));
  }
  kit.Are(Role::kForward, Rate::kStep);
  ValueId x = kit.Constant("x", {16}, kBroadcast);
  for (const int i : {2, 0, 1}) x = kit.Node1("add", std::string("y") + std::to_string(i), {x, copies[i]}, kBroadcast);
  EXPECT_THAT(ChainsOf(kit.graph(), 128),
              ElementsAre("boxing.0 all_w0 (+1)", "boxing.0 all_w1", "forward.1 x (+2)", "forward.2 y1"));
}

}  // namespace
}  // namespace oneflow
