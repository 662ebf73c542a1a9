#include "tools/study/weights/name_pattern.h"

#include "gmock/gmock.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

NamePattern Parsed(const std::string& text) {
  absl::StatusOr<NamePattern> pattern = NamePattern::Parse(text);
  EXPECT_OK(pattern);
  return *std::move(pattern);
}

TEST(NamePatternTest, NumbersOfOneNameFillAnother) {
  const NamePattern ours = Parsed("stage{s}/block{b}/conv/weight");
  const auto numbers = ours.Match("stage3/block11/conv/weight");
  ASSERT_TRUE(numbers.has_value());
  EXPECT_EQ(*numbers, (NameNumbers{{"s", 3}, {"b", 11}}));
  EXPECT_EQ(Parsed("layer{s-1}.{b}.conv{s+2}").Fill(*numbers), "layer2.11.conv5");
  EXPECT_TRUE(Parsed("").Match("").has_value());
  EXPECT_TRUE(Parsed("plain").Match("plain").has_value());
}

TEST(NamePatternTest, WhatIsNoNumberDoesNotMatch) {
  const NamePattern pattern = Parsed("h{i}/w{i}");
  EXPECT_TRUE(pattern.Match("h0/w0").has_value());
  for (const char* name : {"h00/w00", "h01/w1", "h/w", "hx/wx", "h1/w2", "h1/w1x", "xh1/w1", "h1/w", "h-1/w-1",
                           "h1234567890/w1234567890", ""}) {
    EXPECT_FALSE(pattern.Match(name).has_value()) << name;
  }
}

TEST(NamePatternTest, APatternThatCouldMatchInTwoWaysIsRefused) {
  const std::pair<const char*, const char*> kCases[] = {
      {"h{i", "braces"},
      {"h}i", "braces"},
      {"{i}{j}", "two placeholders"},
      {"{i}0", "a digit follows"},
      {"{}", "'{}'"},
      {"{1}", "'{1}'"},
      {"{i-}", "adds no number"},
      {"{i-0}", "adds no number"},
      {"{i+x}", "adds"},
      {"{i+99999999}", "adds"},
      {"{{i}}", "'{{i}'"},
  };
  for (const auto& [text, message] : kCases) {
    EXPECT_THAT(NamePattern::Parse(text), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message))) << text;
  }
}

TEST(NamePatternTest, APatternKnowsWhoseNumbersItNeeds) {
  EXPECT_TRUE(Parsed("a{i}").UsesOnly(Parsed("b{j}c{i}")));
  EXPECT_FALSE(Parsed("a{i}.{k}").UsesOnly(Parsed("b{j}c{i}")));
  EXPECT_TRUE(Parsed("a{i-1}").has_offsets());
  EXPECT_FALSE(Parsed("a{i}").has_offsets());
}

}  // namespace
}  // namespace oneflow
