#include "compiler/select/wishes.h"

#include "test/compiler/passes/testing.h"
#include "test/support/names.h"

namespace oneflow::testing {
namespace {

// Two weights with wishes, and the nodes that make them.
struct Wishes {
  explicit Wishes(const SbpHint& of_v, const SbpHint& of_w) {
    GraphBuilder b(Ops(), "wishes");
    Weight(b, "v", {4, 4}, of_v);
    Weight(b, "w", {4, 4}, of_w);
    graph = *b.Finish();
    v = graph.FindNode("v");
    w = graph.FindNode("w");
  }
  const SbpHint& hint(NodeId node) const { return graph.value(graph.node(node).outputs[0]).hint; }

  Graph graph;
  NodeId v = -1, w = -1;
};

TEST(WishesTest, TheWeakestIsTheFirstOfTheGreatestPriority) {
  const Wishes it({{"dp", Sbp::Split(0), 2}, {"tp", Sbp::Split(1), 1}}, {{"tp", Sbp::Split(0), 2}});
  const std::optional<Wish> of_both = WeakestWish(it.graph, {it.v, it.w});
  ASSERT_TRUE(of_both.has_value());
  EXPECT_EQ(of_both->value, it.graph.node(it.v).outputs[0]);
  EXPECT_EQ(of_both->axis, "dp");
  const std::optional<Wish> of_w = WeakestWish(it.graph, {it.w});
  ASSERT_TRUE(of_w.has_value());
  EXPECT_EQ(of_w->axis, "tp");
}

TEST(WishesTest, AWishOfPriorityZeroDoesNotYield) {
  const Wishes it({{"tp", Sbp::Split(0)}}, {});
  EXPECT_FALSE(WeakestWish(it.graph, {it.v, it.w}).has_value());
  EXPECT_FALSE(WeakestWish(it.graph, {}).has_value());
}

TEST(WishesTest, OneAfterAnotherYieldsUntilTheRunSucceeds) {
  const Wishes it({{"dp", Sbp::Split(0), 2}, {"tp", Sbp::Split(1), 1}}, {{"tp", Sbp::Split(0)}});
  std::vector<std::string> of_v;  // by run
  const absl::StatusOr<int> result =
      WithPriorities(it.graph, [&](const Graph& graph, std::vector<NodeId>& conflict) -> absl::StatusOr<int> {
        EXPECT_THAT(conflict, IsEmpty());
        of_v.push_back(ToString(graph.value(graph.node(it.v).outputs[0]).hint));
        if (of_v.size() == 3) return 7;
        conflict = {it.v, it.w};
        return absl::InvalidArgumentError("they contradict one another");
      });
  ASSERT_OK(result.status());
  EXPECT_EQ(*result, 7);
  EXPECT_THAT(of_v, ElementsAre("dp:S(0)@2,tp:S(1)@1", "tp:S(1)@1", ""));
  EXPECT_EQ(it.hint(it.v).size(), 2u) << "the caller's graph keeps its wishes";
}

TEST(WishesTest, AnErrorThatNoWishCanMendIsReturned) {
  const Wishes it({{"dp", Sbp::Split(0), 1}}, {});
  int runs = 0;
  const absl::StatusOr<int> result =
      WithPriorities(it.graph, [&](const Graph&, std::vector<NodeId>& conflict) -> absl::StatusOr<int> {
        if (++runs == 1) conflict = {it.v};
        return absl::UnimplementedError("no boxing");
      });
  EXPECT_THAT(result.status(), StatusIs(absl::StatusCode::kUnimplemented, "no boxing"));
  EXPECT_EQ(runs, 2) << "the wish yielded, and was not the reason";
}

}  // namespace
}  // namespace oneflow::testing
