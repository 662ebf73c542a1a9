#include "compiler/explain/other_layouts.h"

#include <cmath>

#include "compiler/select/select_sbp.h"
#include "test/compiler/explain/example.h"
#include "test/support/names.h"

namespace oneflow::testing {
namespace {

class OtherLayoutsTest : public ::testing::Test {
 protected:
  std::vector<OtherLayout> Others(const std::string& node) {
    const GraphFacts& facts = job_.graphs[0];
    return OtherLayouts(facts, Ops(), facts.placed.FindNode(node), costs_);
  }

  JobFacts job_ = ExampleFacts();
  CostModel costs_{job_.topology};
};

TEST_F(OtherLayoutsTest, AllCandidatesButTheChosenOneAreListedCheapestFirst) {
  const GraphFacts& facts = job_.graphs[0];
  const NodeId node = facts.placed.FindNode("up/relu");
  const std::vector<OtherLayout> others = Others("up/relu");
  ASSERT_EQ(others.size() + 1, facts.candidates[node].size());
  for (size_t i = 0; i < others.size(); ++i) {
    EXPECT_FALSE(others[i].layout == facts.chosen[node]);
    if (i > 0) {
      EXPECT_LE(others[i - 1].seconds, others[i].seconds);
    }
  }
}

TEST_F(OtherLayoutsTest, TheDifferenceIsThatOfTheWholeGraph) {
  const GraphFacts& facts = job_.graphs[0];
  const Graph& graph = facts.placed;
  const NodeId node = graph.FindNode("up/relu");
  // All computes and all boxings, each distinct one once.
  const auto total = [&](const std::vector<Layout>& layouts) {
    double seconds = 0;
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      seconds += costs_.Compute(graph, graph.node(id), *Ops().Find(graph.node(id).op), layouts[id]);
    }
    for (ValueId value = 0; value < graph.num_values(); ++value) {
      const Value& it = graph.value(value);
      std::map<std::string, double> paid;
      for (NodeId id = 0; id < graph.num_nodes(); ++id) {
        for (size_t i = 0; i < graph.node(id).inputs.size(); ++i) {
          if (graph.node(id).inputs[i] != value) continue;
          const DistType from{*graph.node(it.producer).placement, layouts[it.producer].outputs[it.output]};
          const DistType to{*graph.node(id).placement, layouts[id].inputs[i]};
          paid[to.ToString()] = costs_.Boxing(costs_.TypeId(it.type), costs_.DistId(from), costs_.DistId(to));
        }
      }
      for (const auto& [to, price] : paid) seconds += price;
    }
    return seconds;
  };
  const double chosen = total(facts.chosen);
  for (const OtherLayout& other : Others("up/relu")) {
    std::vector<Layout> layouts = facts.chosen;
    layouts[node] = other.layout;
    EXPECT_NEAR(other.seconds, total(layouts) - chosen, 1e-9) << other.layout.ToString();
  }
}

TEST_F(OtherLayoutsTest, MovingAWeightIsSaid) {
  bool moves = false;
  for (const OtherLayout& other : Others("up/matmul")) {
    if (other.moves < 0) continue;
    moves = true;
    EXPECT_EQ(job_.graphs[0].placed.node(other.moves).name, "up/weight");
  }
  EXPECT_TRUE(moves);
}

TEST_F(OtherLayoutsTest, VariablesAndAnnotationsDoNotChooseAlone) {
  EXPECT_THAT(Others("up/weight"), IsEmpty());
  EXPECT_THAT(Others("to"), IsEmpty());
  EXPECT_THAT(Others(NamesOf(job_.graphs[0].placed, "adamw_update")[0]), IsEmpty());
}

}  // namespace
}  // namespace oneflow::testing
