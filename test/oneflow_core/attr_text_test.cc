// The text of attributes, alone; graph_text_test.cc has every kind of value and of mistake within a graph.
#include "oneflow_core/attr_text.h"

#include "gmock/gmock.h"
#include "test/support/status_matchers.h"

namespace oneflow::testing {
namespace {

TEST(AttrTextTest, ReadsWhatItWrites) {
  const AttrMap attrs = {{"a", true},  {"b", int64_t{-3}},          {"c", 2.0},
                         {"d", 1e-30}, {"e", std::string("\"}\n")}, {"f", std::vector<int64_t>{1, 2}}};
  const std::string text = AttrsToText(attrs);
  EXPECT_EQ(text, R"({a=true, b=-3, c=2.0, d=1e-30, e="\"}\n", f=[1,2]})");
  LineReader line(text);
  ASSERT_OK_AND_ASSIGN(const AttrMap read, ReadAttrs(line));
  EXPECT_EQ(read, attrs);
  EXPECT_TRUE(line.AtEnd());
}

TEST(AttrTextTest, NoneIsAnEmptyPairOfBracesOrNothing) {
  EXPECT_EQ(AttrsToText({}), "{}");
  LineReader braces("{} next"), nothing("next");
  ASSERT_OK_AND_ASSIGN(const AttrMap a, ReadAttrs(braces));
  ASSERT_OK_AND_ASSIGN(const AttrMap b, ReadAttrs(nothing));
  EXPECT_EQ(a, AttrMap());
  EXPECT_EQ(b, AttrMap());
  EXPECT_TRUE(braces.AcceptWord("next"));
  EXPECT_TRUE(nothing.AcceptWord("next"));
}

TEST(AttrTextTest, AnErrorNamesTheAttribute) {
  LineReader line("{a=1, b=maybe}");
  EXPECT_THAT(ReadAttrs(line), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("attribute 'b': expected true")));
}

}  // namespace
}  // namespace oneflow::testing
