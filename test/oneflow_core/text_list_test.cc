#include "oneflow_core/text_list.h"

#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

TEST(TextListTest, ListsReadBackAsTheyWere) {
  const std::vector<std::vector<std::string>> lists = {
      {}, {""}, {"", ""}, {"a"}, {"a", "b c"}, {"a,b", "\"", "\"\"", "\",\""}, {"x\ny", ","}};
  for (const std::vector<std::string>& list : lists) {
    const std::string text = JoinTexts(list);
    ASSERT_OK_AND_ASSIGN(const std::vector<std::string> read, SplitTexts(text));
    EXPECT_EQ(read, list) << text;
  }
  EXPECT_EQ(JoinTexts({"a", "b \"c\""}), R"("a","b ""c""")");
}

TEST(TextListTest, AnythingElseIsRefused) {
  for (const char* text : {"a", "\"a", "\"a\"b", "\"a\",", "\"a\" \"b\"", ",\"a\"", "\"a\"\"", "\"a\",b"}) {
    EXPECT_THAT(SplitTexts(text), testing::StatusIs(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr("'")))
        << text;
  }
}

}  // namespace
}  // namespace oneflow
