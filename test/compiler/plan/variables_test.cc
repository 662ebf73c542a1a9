#include "compiler/plan/variables.h"

#include "test/compiler/plan/graph_kit.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

using testing::GraphKit;
using ::testing::HasSubstr;
using testing::OptionsFor;
using testing::StatusIs;

absl::StatusOr<VariableTable> TableOf(const std::vector<const Graph*>& graphs, int ranks, int ranks_per_process) {
  const Topology topology = JobTopology(OptionsFor({1, ranks, 1}, ranks_per_process));
  std::vector<Boxings> boxings;
  for (const Graph* graph : graphs) {
    OF_ASSIGN_OR_RETURN(Boxings uses, AnalyseBoxings(*graph, topology));
    boxings.push_back(std::move(uses));
  }
  return LayOutVariables(graphs, boxings, topology);
}

TEST(VariablesTest, TheOwnersOfAVariableCoverItExactlyOnce) {
  GraphKit kit("g");
  kit.Variable("w", {5, 3}, "[dp=2,tp=3]{0,1,2,3,4,5}(B,S(0))");
  kit.Variable("b", {7}, "[dp=2,tp=3]{0,1,2,3,4,5}(B,B)");
  ASSERT_OK_AND_ASSIGN(const VariableTable table, TableOf({&kit.graph()}, 6, 1));
  for (const PlannedVariable& variable : table.variables) {
    int64_t owned = 0;
    for (const VariableShard& shard : variable.shards) owned += shard.owner ? shard.region.count() : 0;
    EXPECT_EQ(owned, variable.type.shape.count()) << variable.name;
  }
}

TEST(VariablesTest, AShardIsSharedIfAnotherProcessReadsItInAnyGraph) {
  GraphKit train("train"), sample("sample");
  const std::string split = "[dp=4]{0,1,2,3}(S(0))", whole = "[dp=4]{0,1,2,3}(B)", first = "[]{1}()";
  train.Variable("w", {4}, split);
  const ValueId w = sample.Variable("w", {4}, split);
  sample.Node1("relu", "use", {sample.Box("to1", w, first)}, first);
  // Ranks 0 and 1 are one process, 2 and 3 another; only rank 1 reads.
  ASSERT_OK_AND_ASSIGN(const VariableTable table, TableOf({&train.graph(), &sample.graph()}, 4, 2));
  const std::vector<VariableShard>& shards = table.Find("w").shards;
  EXPECT_EQ(shards[0].zone, Zone::kPrivate);
  EXPECT_EQ(shards[1].zone, Zone::kPrivate);
  EXPECT_EQ(shards[2].zone, Zone::kShared);
  EXPECT_EQ(shards[3].zone, Zone::kShared);
}

TEST(VariablesTest, GraphsThatDisagreeOnAVariableAreRefused) {
  GraphKit train("train"), evaluate("evaluate");
  train.Variable("w", {4}, "[dp=2]{0,1}(S(0))");
  evaluate.Variable("w", {4}, "[dp=2]{0,1}(B)");
  EXPECT_THAT(
      TableOf({&train.graph(), &evaluate.graph()}, 2, 1),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("an earlier graph has it as f32[4] [dp=2]{0,1}(S(0))")));
}

TEST(VariablesTest, ShardsOfARankLieBehindOneAnotherAligned) {
  GraphKit kit("g");
  kit.Variable("a", {3}, "[]{0}()");
  kit.Variable("b", {20}, "[]{0}()");
  ASSERT_OK_AND_ASSIGN(const VariableTable table, TableOf({&kit.graph()}, 1, 1));
  EXPECT_EQ(table.Find("a").shards[0].offset, 0);
  EXPECT_EQ(table.Find("b").shards[0].offset, 64);
  EXPECT_EQ(table.num_bytes[0][0], 64 + 128);
}

}  // namespace
}  // namespace oneflow
