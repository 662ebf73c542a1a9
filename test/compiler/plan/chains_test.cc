#include "compiler/plan/chains.h"

#include <random>

#include "oneflow_core/queues.h"
#include "test/compiler/plan/graph_kit.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

std::vector<std::string> Names(const ChainGraph& chains) {
  std::vector<std::string> names;
  for (const Chain& chain : chains.chains) names.push_back(chain.name);
  return names;
}

TEST(ChainsTest, AStepOnOneDeviceIsOneChainPerQueueThatUpdatesAfterAllReads) {
  const Graph graph = TrainingStep({});
  ASSERT_OK_AND_ASSIGN(const ChainGraph chains, BuildChains(graph, Ops(), OneProcess()));
  ASSERT_THAT(chains.chains, SizeIs(2));
  EXPECT_EQ(chains.chains[0].queue, kHostQueue);
  EXPECT_EQ(chains.chains[1].queue, kComputeQueue);
  EXPECT_EQ(graph.node(chains.chains[1].nodes.back()).op, "sgd_update");
}

TEST(ChainsTest, DataParallelGradientsGoThroughTwoBoxingsToTheUpdate) {
  ASSERT_OK_AND_ASSIGN(const ChainGraph chains, BuildChains(TrainingStep({1, 2, 1}), Ops(), OneProcess()));
  EXPECT_THAT(Names(chains), ElementsAre("host.0 read", "backward.1 flat (+5)", "boxing.2 s0/scatter",
                                         "boxing.3 s0/gather", "update.4 s0/lr (+2)"));
}

TEST(ChainsTest, BoxingsOfOneLevelBetweenTheSamePlacesShareAChain) {
  GraphKit kit("g");
  const std::string b = "[dp=2]{0,1}(B)", s = "[dp=2]{0,1}(S(0))";
  const ValueId x = kit.Constant("x", {4}, s);
  const ValueId y = kit.Node1("relu", "y", {x}, s);
  const ValueId bx = kit.Box("bx", x, b), by = kit.Box("by", y, b);
  kit.Node1("add", "z", {bx, by}, b);
  ASSERT_OK_AND_ASSIGN(const ChainGraph chains, BuildChains(kit.graph(), Ops(), OneProcess()));
  EXPECT_THAT(Names(chains), ElementsAre("forward.0 x (+1)", "boxing.1 bx (+1)", "forward.2 z"));
}

// Backward makes a gradient of w, then moves what it goes on with, then makes a gradient of v.
TEST(ChainsTest, GradientsWaitForOneAnotherAndHoldUpNothingElse) {
  GraphKit kit("g");
  const std::string b = "[dp=2]{0,1}(B)", s = "[dp=2]{0,1}(S(0))";
  const ValueId w = kit.Variable("w", {4}, b), v = kit.Variable("v", {4}, b);
  const ValueId x = kit.Constant("x", {4}, s);
  kit.Are(Role::kInputGradient, Rate::kStep);
  const ValueId dw = kit.Node1("neg", "dw", {x}, s);
  const ValueId moved = kit.Box("moved", x, b);
  const ValueId dv = kit.Node1("neg", "dv", {moved}, b);
  const ValueId whole_dw = kit.Box("whole_dw", dw, b), whole_dv = kit.Box("whole_dv", dv, s);
  kit.Are(Role::kUpdate, Rate::kStep);
  kit.Node("assign", "set_w", {w, whole_dw}, {});
  kit.Node("assign", "set_v", {v, whole_dv}, {});
  ASSERT_OK_AND_ASSIGN(const ChainGraph chains, BuildChains(kit.graph(), Ops(), OneProcess()));
  EXPECT_THAT(Names(chains), ElementsAre("forward.0 x", "boxing.1 moved", "backward.2 dw (+1)",
                                         "boxing.3 whole_dw (+1)", "update.4 set_w (+1)"));
}

// A gather that waits for a reader of weights to be done, and not for what comes behind it.
TEST(ChainsTest, WhatAnotherQueueWaitsForEndsItsChain) {
  GraphKit kit("g");
  const std::string b = "[dp=2]{0,1}(B)", s = "[dp=2]{0,1}(S(0))";
  const ValueId w = kit.Variable("w", {4}, s), x = kit.Constant("x", {4}, b);
  const ValueId reader = kit.Node1("relu", "reader", {x}, b), behind = kit.Node1("relu", "behind", {reader}, b);
  const ValueId gathered = kit.Box("gathered", w, b);
  kit.graph().node(kit.graph().value(gathered).producer).after = {reader};
  kit.Node1("add", "next", {behind, gathered}, b);
  ASSERT_OK_AND_ASSIGN(const ChainGraph chains, BuildChains(kit.graph(), Ops(), OneProcess()));
  EXPECT_THAT(Names(chains),
              ElementsAre("forward.0 x (+1)", "forward.1 behind", "boxing.1 gathered", "forward.2 next"));
}

TEST(ChainsTest, AccumulateLivesWithTheMicroBatchesAndItsReaderWithTheStep) {
  const Graph graph = TrainingStep({1, 1, 4});
  ASSERT_OK_AND_ASSIGN(const ChainGraph chains, BuildChains(graph, Ops(), OneProcess()));
  EXPECT_THAT(Names(chains), ElementsAre("host.0 read", "backward.1 flat (+6)", "update.2 s0/lr (+2)"));
  EXPECT_EQ(chains.chains[1].rate, Rate::kMicroBatch);
  EXPECT_EQ(chains.chains[2].rate, Rate::kStep);
  EXPECT_EQ(graph.node(chains.chains[1].nodes.back()).op, "accumulate");
}

// Both act once per step, at the same level of the same place; together they would wait for themselves.
TEST(ChainsTest, WhatMicroBatchesWaitForSharesNoChainWithWhatWaitsForThem) {
  GraphKit kit("g");
  const std::string here = "[]{0}()", there = "[]{1}()";
  kit.Are(Role::kForward, Rate::kMicroBatch);
  const ValueId x = kit.Constant("x", {4}, here);
  const ValueId x_there = kit.Box("x_there", x, there);
  kit.Are(Role::kForward, Rate::kStep);
  const ValueId first = kit.Box("first_there", kit.Constant("first", {4}, here), there);
  const ValueId leading = kit.Node1("neg", "leading", {first}, there);
  const ValueId sum = kit.Box("sum_there", kit.Node1("accumulate", "sum", {x}, here), there);
  kit.Node1("neg", "trailing", {sum}, there);
  kit.Are(Role::kForward, Rate::kMicroBatch);
  kit.Node1("add", "use", {x_there, leading}, there);
  const Graph& graph = kit.graph();
  ASSERT_OK_AND_ASSIGN(const ChainGraph chains, BuildChains(graph, Ops(), OneProcess()));
  const int a = chains.chain_of_node[graph.FindNode("leading")], b = chains.chain_of_node[graph.FindNode("trailing")];
  EXPECT_EQ(chains.chains[a].level, chains.chains[b].level) << "or this tests nothing";
  EXPECT_NE(a, b);
  EXPECT_OK(VerifyChains(graph, Ops(), chains));
}

TEST(ChainsTest, AnUpdateThatNeedsNothingStillComesAfterTheLastReader) {
  GraphKit kit("g");
  const std::string one = "[]{0}()", two = "[]{1}()";
  const ValueId w = kit.Variable("w", {4}, one);
  const ValueId zero = kit.Constant("zero", {4}, one);
  kit.Node("assign", "clear", {w, zero}, {});
  const ValueId there = kit.Box("there", w, two);
  kit.Node1("relu", "use", {there}, two);
  ASSERT_OK_AND_ASSIGN(const ChainGraph chains, BuildChains(kit.graph(), Ops(), OneProcess()));
  EXPECT_THAT(Names(chains), ElementsAre("boxing.0 there", "forward.1 zero (+1)", "forward.1 use"));
}

TEST(ChainsTest, ABackwardNodeThatNeedsNoGradientGoesToItsReader) {
  GraphKit kit("g");
  const std::string here = "[]{0}()", there = "[]{1}()";
  const ValueId x = kit.Constant("x", {4}, here);
  const ValueId y = kit.Node1("tanh", "y", {x}, here);
  const ValueId away = kit.Box("away", y, there);
  const ValueId loss = kit.Node1("relu", "loss", {away}, there);
  kit.Are(Role::kInputGradient, Rate::kStep);
  const ValueId square = kit.Node1("square", "square", {y}, here);
  const ValueId dloss = kit.Node1("neg", "dloss", {loss}, there);
  const ValueId back = kit.Box("back", dloss, here);
  kit.Node1("mul", "dx", {back, square}, here);
  const Graph& graph = kit.graph();
  ASSERT_OK_AND_ASSIGN(const ChainGraph chains, BuildChains(graph, Ops(), OneProcess()));
  EXPECT_EQ(chains.chains[0].part, StepPart::kForward);
  EXPECT_EQ(chains.chain_of_node[graph.FindNode("square")], chains.chain_of_node[graph.FindNode("dx")]);
}

TEST(ChainsTest, OneVariableOverwrittenAtTwoTimesIsRefused) {
  GraphKit kit("g");
  const std::string here = "[dp=2]{0,1}(B)";
  const ValueId w = kit.Variable("w", {4}, here);
  const ValueId a = kit.Constant("a", {4}, "[dp=2]{0,1}(S(0))");
  const ValueId b = kit.Constant("b", {4}, here);
  kit.Node("assign", "first", {w, b}, {});
  kit.Node("assign", "second", {w, kit.Box("box", a, here)}, {});
  EXPECT_THAT(
      BuildChains(kit.graph(), Ops(), OneProcess()),
      StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("variable 'w' is already overwritten by node 'first'")));
}

TEST(ChainsTest, ACircleOfOverwritingIsRefused) {
  GraphKit kit("g");
  const std::string here = "[]{0}()";
  const ValueId v = kit.Variable("v", {4}, here), w = kit.Variable("w", {4}, here);
  kit.Node("assign", "v=w", {v, w}, {});
  kit.Node("assign", "w=v", {w, v}, {});
  EXPECT_THAT(BuildChains(kit.graph(), Ops(), OneProcess()),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("waits for itself")));
}

// BuildChains ends with VerifyChains; the graphs mix placements, rates and boxings as no model does.
TEST(ChainsTest, ChainsOfRandomGraphsHaveNoCycle) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    const auto pick = [&](size_t n) { return static_cast<size_t>(random() % n); };
    const std::string places[] = {"[]{0}()", "[]{1}()", "[]{2}()"};
    GraphKit kit("random");
    std::vector<std::vector<ValueId>> values(3);
    for (int p = 0; p < 3; ++p) values[p] = {kit.Constant(absl::StrCat("c", p), {4}, places[p])};
    for (int i = 0; i < 40; ++i) {
      kit.Are(pick(2) == 0 ? Role::kForward : Role::kInputGradient, pick(4) == 0 ? Rate::kStep : Rate::kMicroBatch);
      const size_t p = pick(3), q = pick(3);
      const std::string name = absl::StrCat("n", i);
      if (p != q) {
        values[q].push_back(kit.Box(name, values[p][pick(values[p].size())], places[q]));
      } else {
        values[p].push_back(
            kit.Node1("add", name, {values[p][pick(values[p].size())], values[p][pick(values[p].size())]}, places[p]));
      }
    }
    ASSERT_OK(BuildChains(kit.graph(), Ops(), OneProcess()));
  }
}

TEST(ChainsTest, TheCheckFindsANodeBeforeItsInput) {
  const Graph graph = TrainingStep({});
  ASSERT_OK_AND_ASSIGN(ChainGraph chains, BuildChains(graph, Ops(), OneProcess()));
  std::swap(chains.chains[1].nodes.front(), chains.chains[1].nodes.back());
  EXPECT_THAT(VerifyChains(graph, Ops(), chains), StatusIs(absl::StatusCode::kInternal, HasSubstr("must run after")));
}

}  // namespace
}  // namespace oneflow
