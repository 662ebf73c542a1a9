#include "oneflow_core/attr.h"

#include "gmock/gmock.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

TEST(AttrTest, GivesTheFallbackForWhatIsAbsentOrOfAnotherType) {
  const AttrMap attrs = {
      {"flag", true}, {"n", int64_t{3}}, {"x", 0.5}, {"s", std::string("text")}, {"l", std::vector<int64_t>{1, 2}}};
  EXPECT_TRUE(attrs.Bool("flag"));
  EXPECT_EQ(attrs.Int("n"), 3);
  EXPECT_EQ(attrs.Double("x"), 0.5);
  EXPECT_EQ(attrs.String("s"), "text");
  EXPECT_THAT(attrs.Ints("l"), ElementsAre(1, 2));
  EXPECT_EQ(attrs.Int("x", 7), 7);
  EXPECT_EQ(attrs.String("absent", "none"), "none");
  EXPECT_FALSE(attrs.Has("absent"));
}

TEST(AttrTest, ReadsAnIntegerAsADoubleButNotTheReverse) {
  const AttrMap attrs = {{"n", int64_t{3}}, {"x", 3.0}};
  EXPECT_EQ(attrs.Double("n"), 3.0);
  EXPECT_EQ(attrs.Int("x", -1), -1);
  EXPECT_FALSE((AttrMap{{"a", int64_t{3}}} == AttrMap{{"a", 3.0}}));
}

TEST(AttrTest, IsOrderedByName) {
  AttrMap attrs;
  attrs.Set("b", true);
  attrs.Set("a", false);
  attrs.Set("b", int64_t{1});
  std::vector<std::string> names;
  for (const auto& [name, value] : attrs.items()) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("a", "b"));
  EXPECT_EQ(attrs.Int("b"), 1);
}

}  // namespace
}  // namespace oneflow
