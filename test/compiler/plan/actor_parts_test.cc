#include "compiler/plan/actor_parts.h"

#include "gmock/gmock.h"
#include "test/compiler/plan/graph_kit.h"

namespace oneflow::testing {
namespace {

constexpr char kTwo[] = "[dp=2]{0,1}(S(0))";
const DeviceSpeeds kDevice = {.f32_flops = 1e9, .memory_bytes_per_s = 1e12};

double SecondsOf(const std::string& op, Shape shape) {
  GraphKit kit("parts");
  const ValueId x =
      kit.Node1("constant", "x", {}, {kTwo}, {{"dtype", std::string("f32")}, {"shape", shape.dims()}, {"value", 1.0}});
  kit.Node1(op, "y", {x}, {kTwo});
  const Graph& graph = kit.graph();
  Chain chain;
  chain.nodes = {graph.FindNode("y")};
  const std::vector<ActorPart> parts = PartsOf(graph, chain, Ops(), kDevice);
  EXPECT_EQ(parts.size(), 1u);
  return parts.empty() ? 0 : parts[0].seconds;
}

// 2 x 4 bytes of memory for each of a rank's 500 elements, and what is computed of it: an op that does not say how much
// computes each element of its output once.
TEST(ActorPartsTest, AnOpThatSaysNothingOfItsWorkComputesEveryElementOnce) {
  EXPECT_NEAR(SecondsOf("relu", {1000}), 500 / 1e9 + 8 * 500 / 1e12, 1e-15);
}

}  // namespace
}  // namespace oneflow::testing
