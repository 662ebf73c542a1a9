#include "oneflow_core/factor_rule.h"

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

// "f32[2,3] f32[3]" to types.
std::vector<TensorType> Types(const std::string& text) {
  std::vector<TensorType> types;
  for (absl::string_view part : absl::StrSplit(text, ' ', absl::SkipEmpty())) types.push_back(*TensorType::Parse(part));
  return types;
}

absl::StatusOr<FactorRule> Parse(const std::string& rule, const std::string& inputs, const std::string& outputs) {
  return ParseFactorRule(rule, Types(inputs), Types(outputs));
}

// "m k, k n" with "-" for a dimension without a letter.
std::string Letters(const FactorRule& rule, const std::vector<std::vector<int>>& operands) {
  return absl::StrJoin(operands, ", ", [&](std::string* s, const std::vector<int>& dims) {
    s->append(absl::StrJoin(dims, " ", [&](std::string* t, int letter) {
      t->append(letter == FactorRule::kNone ? "-" : rule.letters[letter].name);
    }));
  });
}

FactorRule::Mark MarkOf(const FactorRule& rule, const std::string& name) {
  for (const FactorRule::Letter& letter : rule.letters) {
    if (letter.name == name) return letter.mark;
  }
  ADD_FAILURE() << "no letter " << name;
  return FactorRule::Mark::kFree;
}

TEST(FactorRuleTest, LettersThatNoOutputHasAreSummed) {
  ASSERT_OK_AND_ASSIGN(const FactorRule rule, Parse("mk,kn->mn; linear 0; linear 1", "f32[4,6] f32[6,8]", "f32[4,8]"));
  EXPECT_EQ(Letters(rule, rule.inputs), "m k, k n");
  EXPECT_EQ(Letters(rule, rule.outputs), "m n");
  EXPECT_EQ(MarkOf(rule, "m"), FactorRule::Mark::kFree);
  EXPECT_EQ(MarkOf(rule, "k"), FactorRule::Mark::kSum);
  EXPECT_THAT(rule.linear, ElementsAre(ElementsAre(0), ElementsAre(1)));
}

TEST(FactorRuleTest, TheEllipsisBroadcastsAsInNumPy) {
  ASSERT_OK_AND_ASSIGN(const FactorRule rule, Parse("...,...->...; linear 0 1", "f32[5,1,3] f32[4,1]", "f32[5,4,3]"));
  EXPECT_EQ(Letters(rule, rule.inputs), "...0 - ...2, ...1 -");
  EXPECT_EQ(Letters(rule, rule.outputs), "...0 ...1 ...2");
  EXPECT_THAT(rule.linear, ElementsAre(ElementsAre(0, 1)));
}

TEST(FactorRuleTest, OnesCarryNoLetter) {
  ASSERT_OK_AND_ASSIGN(const FactorRule rule, Parse("abc->a1c; linear 0", "f32[2,3,4]", "f32[2,1,4]"));
  EXPECT_EQ(Letters(rule, rule.outputs), "a - c");
  EXPECT_EQ(MarkOf(rule, "b"), FactorRule::Mark::kSum);
  EXPECT_OK(Parse("ab->11", "f32[2,3]", "f32[1,1]"));
  EXPECT_THAT(Parse("ab->a1", "f32[2,3]", "f32[2,3]"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("output 0, f32[2,3]: dimension 1 has no letter but size 3")));
}

TEST(FactorRuleTest, DimensionsThatAreOneEverywhereCarryTheirLetter) {
  ASSERT_OK_AND_ASSIGN(const FactorRule rule, Parse("...,...->...", "f32[1,3] f32[1,3]", "f32[1,3]"));
  EXPECT_EQ(Letters(rule, rule.inputs), "...0 ...1, ...0 ...1");
}

TEST(FactorRuleTest, TheEllipsisMayStandForNothing) {
  ASSERT_OK_AND_ASSIGN(const FactorRule rule, Parse("...k,kn->...n", "f32[6] f32[6,8]", "f32[8]"));
  EXPECT_EQ(Letters(rule, rule.inputs), "k, k n");
  ASSERT_OK_AND_ASSIGN(const FactorRule scalar, Parse(",...->...", "f32[] f32[2]", "f32[2]"));
  EXPECT_EQ(Letters(scalar, scalar.inputs), ", ...0");
}

TEST(FactorRuleTest, AnEmptySideIsNothingOrOneScalar) {
  ASSERT_OK_AND_ASSIGN(const FactorRule nothing, Parse("...->", "i64[]", ""));
  EXPECT_THAT(nothing.outputs, IsEmpty());
  ASSERT_OK_AND_ASSIGN(const FactorRule scalar, Parse("...->", "f32[4]", "f32[]"));
  EXPECT_THAT(scalar.outputs, ElementsAre(IsEmpty()));
  EXPECT_EQ(MarkOf(scalar, "...0"), FactorRule::Mark::kSum);
  ASSERT_OK_AND_ASSIGN(const FactorRule two, Parse("->,", "f32[]", "f32[] f32[]"));
  EXPECT_THAT(two.inputs, ElementsAre(IsEmpty()));
  EXPECT_THAT(two.outputs, ElementsAre(IsEmpty(), IsEmpty()));
  ASSERT_OK_AND_ASSIGN(const FactorRule update, Parse("...,...,,->", "f32[4] f32[4] f32[] i64[]", ""));
  EXPECT_EQ(update.inputs.size(), 4);
}

TEST(FactorRuleTest, MarksSayWhatALetterMayDo) {
  ASSERT_OK_AND_ASSIGN(const FactorRule rule, Parse("mkc->mc; max k; whole c m", "f32[2,3,4]", "f32[2,4]"));
  EXPECT_EQ(MarkOf(rule, "k"), FactorRule::Mark::kMax);
  EXPECT_EQ(MarkOf(rule, "c"), FactorRule::Mark::kWhole);
  EXPECT_EQ(MarkOf(rule, "m"), FactorRule::Mark::kWhole);
  ASSERT_OK_AND_ASSIGN(const FactorRule min, Parse("mk->m; min k", "f32[2,3]", "f32[2]"));
  EXPECT_EQ(MarkOf(min, "k"), FactorRule::Mark::kMin);
}

TEST(FactorRuleTest, ErrorsSayWhereAndWhat) {
  const struct {
    std::string rule, inputs, outputs, message;
  } kCases[] = {
      {"mk,kn", "f32[2,3] f32[3,4]", "f32[2,4]", "position 0: has no '->'"},
      {"mk,k2->mn", "f32[2,3] f32[3,4]", "f32[2,4]", "position 4: '2' is not a letter"},
      {"mm->m", "f32[2,2]", "f32[2]", "position 1: letter m stands twice in one operand"},
      {"mk->m", "f32[2,3] f32[2]", "f32[2]", "position 0: has 1 inputs, the op has 2"},
      {"mk->m,k", "f32[2,3]", "f32[2]", "position 4: has 2 outputs, the op has 1"},
      {"mk->m; hole k", "f32[2,3]", "f32[2]", "position 7: 'hole' is none of whole, max, min, linear"},
      {"mk->m; whole z", "f32[2,3]", "f32[2]", "position 13: no operand has a letter z"},
      {"mk->m; max m", "f32[2,3]", "f32[2]", "position 11: letter m is not reduced: an output has it"},
      {"mk->m; linear 1", "f32[2,3]", "f32[2]", "position 14: '1' is not one of the 1 inputs"},
      {"mk->m; linear", "f32[2,3]", "f32[2]", "position 7: 'linear' names nothing"},
      {"mk->m;", "f32[2,3]", "f32[2]", "position 6: empty mark"},
      {"mk->m", "f32[2,3,4]", "f32[2]", "input 0 is f32[2,3,4] but its rule is 'mk', 2 dimensions"},
      {"...mk->m", "f32[2]", "f32[2]", "input 0 is f32[2] but its rule is '...mk', at least 2 dimensions"},
      {"mk,kn->mn", "f32[2,3] f32[4,5]", "f32[2,5]", "input 1, f32[4,5]: letter k stands for both 3 and 4"},
      {"...,...->...", "f32[2] f32[3]", "f32[3]", "input 1, f32[3]: letter ...0 stands for both 2 and 3"},
  };
  for (const auto& c : kCases) {
    EXPECT_THAT(Parse(c.rule, c.inputs, c.outputs), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message)))
        << c.rule;
  }
}

}  // namespace
}  // namespace oneflow
