// Where ragged values begin and end: every dimension is a letter, and the counts have those of the groups.
#include "sbp/rules/rules.h"

namespace oneflow::rules {
namespace {

// Of addends every rank keeps, or pads, the same rows.
Result CopiesRows(const RuleContext& context) {
  FactorRule rule = OneLetterPerDimension(context.outputs[0].shape);
  const std::vector<int> letters = AllLetters(rule);
  rule.inputs = {letters, {letters.begin(), letters.begin() + context.inputs[1].shape.rank()}};
  rule.outputs = {letters};
  rule.linear = {{0}};
  return FromFactors(rule, context);
}

}  // namespace

RuleList Ragged() {
  static constexpr OpRule kRules[] = {
      {"keep_rows", CopiesRows},
      {"pad_rows", CopiesRows},
  };
  return kRules;
}

}  // namespace oneflow::rules
