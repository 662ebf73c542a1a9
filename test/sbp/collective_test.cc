#include "sbp/collective.h"

#include "test/sbp/dists.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

struct NamedStep {
  std::string from_placement, from, to_placement, to, collective;
};

TEST(CollectiveTest, StepsAreNamedAfterWhatTheyAmountTo) {
  const std::string x = "[x=2]{0,1}", far = "[x=2]{2,3}", xy = "[x=2,y=2]{0,1,2,3}", yx = "[y=2,x=2]{0,2,1,3}";
  const NamedStep kCases[] = {
      {x, "(P)", x, "(S(1))", "reduce-scatter"},
      {x, "(S(0))", x, "(B)", "all-gather"},
      {x, "(S(0))", x, "(S(1))", "all-to-all"},
      {x, "(B)", x, "(S(1))", "local"},
      {x, "(B)", x, "(P)", "local"},
      {x, "(S(0))", x, "(P)", "local"},
      {"[]{0}", "()", x, "(B)", "broadcast"},
      {x, "(B)", far, "(B)", "none"},        // likewise, each copy to its own coordinate
      {x, "(S(0))", far, "(S(0))", "none"},  // a send from one rank to one rank
      {"[y=2]{0,1}", "(S(1))", xy, "(B,S(1))", "broadcast"},
      // On two axes: one changes, both change alike, both change differently.
      {xy, "(P,S(1))", xy, "(S(0),S(1))", "reduce-scatter"},
      {xy, "(S(0),S(0))", xy, "(B,B)", "all-gather"},
      {xy, "(P,S(1))", xy, "(S(0),S(0))", "none"},
      // The gathered split lies inside the kept one, and then outside of it, where ranks of other groups are needed.
      {xy, "(S(0),S(0))", xy, "(S(0),B)", "all-gather"},
      {xy, "(S(0),S(0))", xy, "(B,S(0))", "none"},
      // The same grid with its axes in another order.
      {xy, "(P,S(0))", yx, "(S(0),S(0))", "reduce-scatter"},
      {yx, "(S(0),S(0))", xy, "(B,S(0))", "all-gather"},
  };
  for (const NamedStep& c : kCases) {
    const DistType from = Dist(c.from_placement, c.from), to = Dist(c.to_placement, c.to);
    SCOPED_TRACE(absl::StrCat(from.ToString(), " to ", to.ToString()));
    ASSERT_OK_AND_ASSIGN(const BoxingStep step, OneBoxingStep({DType::kFloat32, {4, 4}}, from, to, OneHost(4, 1)));
    EXPECT_THAT(Name(step.collective), StrEq(c.collective));
  }
}

TEST(CollectiveTest, EveryCollectiveHasAName) {
  EXPECT_STREQ(Name(Collective::kNone), "none");
  EXPECT_STREQ(Name(Collective::kAllReduce), "all-reduce");
  EXPECT_STREQ(Name(Collective::kLocal), "local");
  EXPECT_EQ(CollectiveOf(Sbp::Partial(), Sbp::Broadcast()), Collective::kAllReduce);
}

}  // namespace
}  // namespace oneflow
