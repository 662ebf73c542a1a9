// Reductions and broadcasts: dimensions that one side lacks, or has with size 1, are reduced (or repeated), the others
// pass.
#include <algorithm>

#include "sbp/rules/rules.h"

namespace oneflow::rules {
namespace {

using Mark = FactorRule::Mark;

// x -> y where `reduced(d)` says which dimensions of x are gone; with keepdims they stay in y without a letter.
template <typename Reduced>
FactorRule Reduction(const Shape& x, bool keepdims, Mark mark, Reduced reduced) {
  FactorRule rule = OneLetterPerDimension(x);
  rule.inputs = {AllLetters(rule)};
  rule.outputs.emplace_back();
  for (int d = 0; d < x.rank(); ++d) {
    if (!reduced(d)) {
      rule.outputs[0].push_back(d);
      continue;
    }
    rule.letters[d].mark = mark;
    if (keepdims) rule.outputs[0].push_back(FactorRule::kNone);
  }
  return rule;
}

FactorRule ReductionOverAxes(const RuleContext& context, Mark mark, int input = 0) {
  const std::vector<int64_t> axes = context.attrs.Ints("axes");
  return Reduction(context.inputs[input].shape, context.attrs.Bool("keepdims"), mark,
                   [&](int d) { return std::find(axes.begin(), axes.end(), d) != axes.end(); });
}

// The letters of `small` when it is broadcast to the dimensions of `rule`, aligned at the right as in NumPy.
std::vector<int> BroadcastLetters(const Shape& small, const Shape& large) {
  const int missing = large.rank() - small.rank();
  std::vector<int> dims;
  for (int d = 0; d < small.rank(); ++d) {
    dims.push_back(small[d] == large[d + missing] ? d + missing : FactorRule::kNone);
  }
  return dims;
}

Result ReduceMax(const RuleContext& context) { return FromFactors(ReductionOverAxes(context, Mark::kMax), context); }

Result ReduceMin(const RuleContext& context) { return FromFactors(ReductionOverAxes(context, Mark::kMin), context); }

// x, y -> n: parts of x are counted against the whole y.
Result ExtremumCount(const RuleContext& context) {
  FactorRule rule = ReductionOverAxes(context, Mark::kSum);
  rule.inputs.push_back(rule.outputs[0]);
  return FromFactors(rule, context);
}

// dy, x, y, n -> dx.
Result ExtremumGrad(const RuleContext& context) {
  FactorRule rule = ReductionOverAxes(context, Mark::kFree, 1);
  const std::vector<int> whole = rule.inputs[0], kept = rule.outputs[0];
  rule.inputs = {kept, whole, kept, kept};
  rule.outputs = {whole};
  rule.linear = {{0}};
  return FromFactors(rule, context);
}

// A repeated dimension is a letter that only the output has.
Result BroadcastTo(const RuleContext& context) {
  const Shape& y = context.outputs[0].shape;
  FactorRule rule = OneLetterPerDimension(y);
  rule.inputs = {BroadcastLetters(context.inputs[0].shape, y)};
  rule.outputs = {AllLetters(rule)};
  rule.linear = {{0}};
  return FromFactors(rule, context);
}

}  // namespace

RuleList Reductions() {
  static constexpr OpRule kRules[] = {
      {"reduce_max", ReduceMax},       {"reduce_min", ReduceMin},     {"extremum_count", ExtremumCount},
      {"extremum_grad", ExtremumGrad}, {"broadcast_to", BroadcastTo},
  };
  return kRules;
}

}  // namespace oneflow::rules
