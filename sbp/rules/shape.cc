// Ops that move elements within dimensions: a dimension in which elements change places stays whole, the others pass.
#include <numeric>

#include "sbp/rules/rules.h"

namespace oneflow::rules {
namespace {

// All operands have the same dimensions; `axis` carries no letter, because its size differs between them.
FactorRule AllBut(int64_t axis, const RuleContext& context) {
  FactorRule rule = OneLetterPerDimension(context.outputs[0].shape);
  std::vector<int> dims = AllLetters(rule);
  dims[axis] = FactorRule::kNone;
  rule.inputs.assign(context.inputs.size(), dims);
  rule.outputs = {dims};
  rule.linear = {std::vector<int>(context.inputs.size())};
  std::iota(rule.linear[0].begin(), rule.linear[0].end(), 0);
  return rule;
}

Result Transpose(const RuleContext& context) {
  FactorRule rule = OneLetterPerDimension(context.inputs[0].shape);
  rule.inputs = {AllLetters(rule)};
  const std::vector<int64_t> perm = context.attrs.Ints("perm");
  rule.outputs.emplace_back(perm.begin(), perm.end());
  rule.linear = {{0}};
  return FromFactors(rule, context);
}

Result Slice(const RuleContext& context) { return FromFactors(AllBut(context.attrs.Int("axis"), context), context); }

// A padded dimension stays whole. Anything but zeros would be added once per addend of a P.
Result Pad(const RuleContext& context) {
  const Shape &x = context.inputs[0].shape, &y = context.outputs[0].shape;
  FactorRule rule = OneLetterPerDimension(y);
  std::vector<int> dims = AllLetters(rule);
  for (int d = 0; d < y.rank(); ++d) {
    if (x[d] != y[d]) dims[d] = FactorRule::kNone;
  }
  rule.inputs = {dims};
  rule.outputs = {dims};
  if (context.attrs.Double("value") == 0) rule.linear = {{0}};
  return FromFactors(rule, context);
}

Result Concat(const RuleContext& context) { return FromFactors(AllBut(context.attrs.Int("axis"), context), context); }

}  // namespace

RuleList Shapes() {
  static constexpr OpRule kRules[] = {
      {"transpose", Transpose},
      {"slice", Slice},
      {"slice_grad", Slice},
      {"flip", Slice},
      {"cumsum", Slice},  // the other dimensions pass, the sum is linear
      {"pad", Pad},
      {"concat", Concat},
  };
  return kRules;
}

}  // namespace oneflow::rules
