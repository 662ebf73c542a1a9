#include "oneflow_core/line_reader.h"

#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

TEST(LineReaderTest, ReadsTokensAndSkipsTheSpacesBetweenThem) {
  LineReader line("  relu ( %12 )\t\"a \\\"b\\\"\" x=-7 [dp=2]{0,1}(P(max),B)\r");
  EXPECT_EQ(*line.Word("an op"), "relu");
  EXPECT_OK(line.Expect("(", "after the op"));
  EXPECT_EQ(*line.ValueName(), 12);
  EXPECT_TRUE(line.Accept(")"));
  EXPECT_EQ(*line.String("a name"), "a \"b\"");
  EXPECT_FALSE(line.AcceptWord("xx"));
  EXPECT_TRUE(line.AcceptWord("x"));
  EXPECT_TRUE(line.Accept("="));
  EXPECT_EQ(*line.Integer<int>("a number"), -7);
  EXPECT_EQ(*line.Bracketed('{', '}', "a placement"), "[dp=2]{0,1}");
  EXPECT_EQ(*line.Bracketed('(', ')', "an SBP"), "(P(max),B)");
  EXPECT_TRUE(line.AtEnd());
}

TEST(LineReaderTest, SaysWhatItExpectedAndWhatIsThere) {
  const std::string text = "12\x01" + std::string(100, 'y');
  LineReader line(text);
  const auto is_error = StatusIs(absl::StatusCode::kInvalidArgument,
                                 HasSubstr("expected a word but found '12\\x01yyyyyyyyyyyyyyyyyyyyyyyyyyy'"));
  EXPECT_THAT(line.Word("a word"), is_error);
  EXPECT_THAT(line.Word("a word"), is_error);  // it is still there
  EXPECT_THAT(LineReader(" ").Word("a word"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected a word but the line ends")));
}

TEST(LineReaderTest, ATokenThatIsNotThereLeavesTheReaderWhereItWas) {
  LineReader line("99999999999x");
  EXPECT_FALSE(line.Integer<int>("a number").ok());
  EXPECT_FALSE(line.ValueName().ok());
  EXPECT_FALSE(line.String("a string").ok());
  EXPECT_FALSE(line.Bracketed('(', ')', "a list").ok());
  EXPECT_FALSE(line.AcceptWord("9"));
  EXPECT_EQ(line.Atom(), "99999999999x");
  LineReader value("%x");
  EXPECT_FALSE(value.ValueName().ok());
  EXPECT_TRUE(value.Peek('%'));
}

TEST(LineReaderTest, BracketsDoNotReachOverSpaces) {
  EXPECT_FALSE(LineReader("(a b)").Bracketed('(', ')', "a list").ok());
  EXPECT_FALSE(LineReader("((a)").Bracketed('(', ')', "a list").ok());
  LineReader reversed(")(");
  ASSERT_OK_AND_ASSIGN(const absl::string_view text, reversed.Bracketed('(', ')', "a list"));
  EXPECT_EQ(text, ")");  // whoever parses the text refuses it
}

TEST(LineReaderTest, StringsEndWhereTheirQuoteDoes) {
  for (const std::string text : {"\"", "\"a", "\"a\\\"", "\"\\", "\"\\q\"", "a\""}) {
    EXPECT_FALSE(LineReader(text).String("a string").ok()) << text;
  }
}

}  // namespace
}  // namespace oneflow
