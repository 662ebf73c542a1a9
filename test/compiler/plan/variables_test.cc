#include "compiler/plan/variables.h"

#include "oneflow_core/zones.h"
#include "test/compiler/plan/graph_kit.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

absl::StatusOr<VariableTable> TableOf(const std::vector<const Graph*>& graphs, int ranks, int ranks_per_process) {
  const Topology topology = JobTopology(OptionsFor({1, ranks, 1}, ranks_per_process));
  return LayOutVariables(graphs, Ops(), RankClasses(graphs, ranks), Boxings(topology, DeviceKind::kCpu));
}

TEST(VariablesTest, AVariableIsSharedIfAnotherProcessMayReadItInAnyGraph) {
  GraphKit train("train"), sample("sample");
  const std::string split = "[dp=4]{0,1,2,3}(S(0))", first = "[]{1}()";
  for (const char* name : {"w", "v"}) train.Variable(name, {4}, split);
  const ValueId w = sample.Variable("w", {4}, split);
  sample.Node1("relu", "use", {sample.Box("to1", w, first)}, first);
  ASSERT_OK_AND_ASSIGN(const VariableTable two, TableOf({&train.graph(), &sample.graph()}, 4, 2));
  EXPECT_EQ(two.Find("w").zone, kSharedZone);
  EXPECT_EQ(two.Find("v").zone, kPrivateZone);
  ASSERT_OK_AND_ASSIGN(const VariableTable one, TableOf({&train.graph(), &sample.graph()}, 4, 4));
  EXPECT_EQ(one.Find("w").zone, kPrivateZone);
}

TEST(VariablesTest, HasRoomForItsLargestShardInEveryClass) {
  GraphKit kit("g");
  kit.Variable("u", {7, 3}, "[dp=4]{0,1,2,3}(S(0))");
  kit.Variable("v", {5}, "[]{2}()");
  kit.Variable("w", {40}, "[dp=4]{0,1,2,3}(S(0))");
  ASSERT_OK_AND_ASSIGN(const VariableTable table, TableOf({&kit.graph()}, 4, 1));
  EXPECT_EQ(table.Find("u").num_bytes, 2 * 3 * 4);
  // Classes {0,1,3} and {2}.
  EXPECT_THAT(table.Find("v").offsets, ::testing::ElementsAre(-1, 64));
  EXPECT_THAT(table.Find("w").offsets, ::testing::ElementsAre(64, 128));
}

TEST(VariablesTest, GraphsThatDisagreeOnAVariableAreRefused) {
  GraphKit train("train"), evaluate("evaluate");
  train.Variable("w", {4}, "[dp=2]{0,1}(S(0))");
  evaluate.Variable("w", {4}, "[dp=2]{0,1}(B)");
  EXPECT_THAT(
      TableOf({&train.graph(), &evaluate.graph()}, 2, 1),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("an earlier graph has it as f32[4] [dp=2]{0,1}(S(0))")));
}

TEST(VariablesTest, ShardsLieBehindOneAnotherAligned) {
  GraphKit kit("g");
  kit.Variable("a", {3}, "[]{0}()");
  kit.Variable("b", {20}, "[]{0}()");
  ASSERT_OK_AND_ASSIGN(const VariableTable table, TableOf({&kit.graph()}, 1, 1));
  EXPECT_EQ(table.Find("a").offsets[0], 0);
  EXPECT_EQ(table.Find("b").offsets[0], 64);
  EXPECT_EQ(table.num_bytes[0][0], 64 + 128);
}

TEST(VariablesTest, LargeOnesOfWholePagesLieApart) {
  GraphKit kit("g");
  for (const char* name : {"a", "b", "c"}) kit.Variable(name, {64, 256}, "[]{0}()");
  ASSERT_OK_AND_ASSIGN(const VariableTable table, TableOf({&kit.graph()}, 1, 1));
  EXPECT_EQ(table.Find("b").offsets[0], (64 << 10) + 192);
  EXPECT_EQ(table.Find("c").offsets[0], 2 * ((64 << 10) + 192));
}

}  // namespace
}  // namespace oneflow
