// Elementwise ops whose rule depends on a type, an attribute or the number of operands.
#include <numeric>

#include "sbp/rules/rules.h"

namespace oneflow::rules {
namespace {

// Rounding to an integer does not commute with adding: P passes between floating types only.
Result Cast(const RuleContext& context) {
  const DType from = context.inputs[0].dtype, to = context.outputs[0].dtype;
  const bool linear = IsFloating(from) && IsFloating(to);
  return FromText(linear ? "...->...; linear 0" : "...->...", context);
}

// y = x + b along `axis`: as an addition, P passes only in both, or b would be added once per rank.
Result BiasAdd(const RuleContext& context) {
  const int rank = context.inputs[0].shape.rank();
  const int64_t axis = context.attrs.Int("axis", -1);
  FactorRule rule = OneLetterPerDimension(context.inputs[0].shape);
  rule.inputs = {AllLetters(rule), {static_cast<int>(axis < 0 ? axis + rank : axis)}};
  rule.outputs = {AllLetters(rule)};
  rule.linear = {{0, 1}};
  return FromFactors(rule, context);
}

Result AddN(const RuleContext& context) {
  FactorRule rule = OneLetterPerDimension(context.outputs[0].shape);
  rule.inputs.assign(context.inputs.size(), AllLetters(rule));
  rule.outputs = {AllLetters(rule)};
  rule.linear = {std::vector<int>(context.inputs.size())};
  std::iota(rule.linear[0].begin(), rule.linear[0].end(), 0);
  return FromFactors(rule, context);
}

}  // namespace

RuleList Elementwise() {
  static constexpr OpRule kRules[] = {
      {"cast", Cast},
      {"bias_add", BiasAdd},
      {"add_n", AddN},
  };
  return kRules;
}

}  // namespace oneflow::rules
