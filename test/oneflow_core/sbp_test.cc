#include "oneflow_core/sbp.h"

#include <algorithm>

#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

TEST(SbpTest, ReadsBackFromItsText) {
  for (const std::string text : {"B", "S(0)", "S(12)", "P", "P(max)", "P(min)", "P(mean)"}) {
    ASSERT_OK_AND_ASSIGN(const Sbp sbp, Sbp::Parse(text));
    EXPECT_EQ(sbp.ToString(), text);
  }
  ASSERT_OK_AND_ASSIGN(const Sbp sum, Sbp::Parse("P(sum)"));
  EXPECT_EQ(sum, Sbp::Partial());
}

TEST(SbpTest, RefusesOtherTexts) {
  for (const std::string text : {"", "b", "S", "S()", "S(-1)", "S(0", "S(x)", "S(99999999999)", "P(prod)", "B "}) {
    EXPECT_THAT(Sbp::Parse(text),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(absl::StrCat("'", text, "'"))));
  }
}

TEST(SbpTest, IsOrderedFromBroadcastOverSplitsToPartials) {
  const std::vector<Sbp> ordered = {Sbp::Broadcast(),
                                    Sbp::Split(0),
                                    Sbp::Split(1),
                                    Sbp::Partial(),
                                    Sbp::Partial(Reduction::kMax),
                                    Sbp::Partial(Reduction::kMin)};
  std::vector<Sbp> shuffled(ordered.rbegin(), ordered.rend());
  std::sort(shuffled.begin(), shuffled.end());
  EXPECT_EQ(shuffled, ordered);
}

TEST(SbpTest, ListsAndHintsReadBackFromTheirText) {
  for (const std::string text : {"()", "(B)", "(S(0),P(max),B)"}) {
    ASSERT_OK_AND_ASSIGN(const NdSbp sbp, ParseNdSbp(text));
    EXPECT_EQ(ToString(sbp), text);
  }
  for (const std::string text : {"", "dp:S(0)", "dp:S(0),tp:P(min)", "dp:B@2,tp:S(1)"}) {
    ASSERT_OK_AND_ASSIGN(const SbpHint hint, ParseSbpHint(text));
    EXPECT_EQ(ToString(hint), text);
  }
}

TEST(SbpTest, RefusesMalformedListsAndHints) {
  for (const std::string text : {"", "B", "(B", "(B,)", "(,)", "(S(0) B)"}) {
    EXPECT_THAT(ParseNdSbp(text), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'"))) << text;
  }
  for (const std::string text : {"dp", ":B", "dp:", "dp:B,", "dp:B,dp:S(0)", "dp:B@", "dp:B@-1", "dp:B@x"}) {
    EXPECT_THAT(ParseSbpHint(text), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("SBP hint"))) << text;
  }
}

}  // namespace
}  // namespace oneflow
