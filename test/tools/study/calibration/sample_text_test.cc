#include "tools/study/calibration/sample_text.h"

#include <set>

#include "gmock/gmock.h"

namespace oneflow {
namespace {

TEST(SampleTextTest, IsTheSameEveryTimeAndAsLongAsAskedFor) {
  const std::string text = SampleText(10'000);
  EXPECT_EQ(text.size(), 10'000u);
  EXPECT_EQ(text, SampleText(10'000));
  EXPECT_EQ(text.substr(0, 777), SampleText(777));
}

TEST(SampleTextTest, IsMadeOfManyWordsOfFewLetters) {
  const std::string text = SampleText(100'000);
  EXPECT_GT(std::set<char>(text.begin(), text.end()).size(), 20u);
  std::set<std::string> words;
  for (size_t begin = 0, end; (end = text.find_first_of(" .\n", begin)) != std::string::npos; begin = end + 1) {
    words.insert(text.substr(begin, end - begin));
  }
  EXPECT_GT(words.size(), 200u);
}

}  // namespace
}  // namespace oneflow
