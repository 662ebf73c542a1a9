#include "test/compiler/passes/testing.h"
#include "test/support/names.h"

namespace oneflow::testing {
namespace {

TEST(CheckReplicasTest, ComparesNothingUnlessAsked) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("check-replicas", Mlp(), Options({{"tp", 2}})));
  EXPECT_THAT(NamesOf(graph, "assert_replicas"), IsEmpty());
}

// Whatever has copies is read behind the comparison only; what overwrites a variable still finds the variable.
TEST(CheckReplicasTest, ReadersComeAfterTheComparison) {
  CompileOptions options = Options({{"dp", 2}, {"tp", 3}}, 2);
  options.check_replicas = true;
  ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("check-replicas", Mlp(12, 33, {{"tp", Sbp::Split(1)}}), options));
  int compared = 0;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    const std::vector<int>& mutates = Ops().Find(node.op)->mutates;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Node& producer = ProducerOf(graph, node, static_cast<int>(i));
      const NdSbp& sbp = graph.value(node.inputs[i]).dist->sbp;
      const bool copied = std::any_of(sbp.begin(), sbp.end(), [](const Sbp& one) { return one.is_broadcast(); });
      if (!copied || node.op == "replica_digest" || producer.op == "boxing" || producer.op == "to") continue;
      if (std::count(mutates.begin(), mutates.end(), static_cast<int>(i)) > 0) {
        EXPECT_EQ(producer.op, "variable") << node.name;
      } else if (node.op == "assert_replicas") {
        ++compared;
      } else {
        EXPECT_EQ(producer.op, "assert_replicas") << node.name << " reads " << producer.name;
      }
    }
  }
  EXPECT_GT(compared, 20);
}

TEST(CheckReplicasTest, DigestsAreGatheredAlongTheCopiesOnly) {
  CompileOptions options = Options({{"dp", 2}, {"tp", 3}});
  options.check_replicas = true;
  ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("check-replicas", Mlp(12, 33, {{"tp", Sbp::Split(1)}}), options));
  EXPECT_EQ(SbpOf(graph, "up"), "(B,S(1))");
  EXPECT_EQ(SbpOf(graph, "up/digest"), "(S(0),S(1))");
  EXPECT_EQ(SbpOf(graph, "up/digests"), "(B,S(1))");
  EXPECT_EQ(SbpOf(graph, "up/replicas"), "(B,S(1))");
}

TEST(CheckReplicasTest, WholePipelinesKeepTheirContract) {
  for (const std::vector<Axis>& axes : std::vector<std::vector<Axis>>{{{"tp", 3}}, {{"pp", 2}, {"dp", 2}}, {}}) {
    CompileOptions options = Options(axes, 2);
    options.check_replicas = true;
    VariableDists variables;
    EXPECT_OK(RunPasses(Mlp(), options, Ops(), variables).status());
  }
}

}  // namespace
}  // namespace oneflow::testing
