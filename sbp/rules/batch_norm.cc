// The parts of a batch norm: tensors of the dimensions of x, in which dimension 1 counts channels, and one number per
// channel beside them. Every dimension may be split; where only numbers of channels come out, the others are summed.
// Some parts are fused: with a ReLU, and both statistics, which nothing but channels may split.
#include "sbp/rules/rules.h"

namespace oneflow::rules {
namespace {

Result PerChannel(const RuleContext& context, std::vector<std::vector<int>> linear) {
  FactorRule rule = OneLetterPerDimension(context.inputs[0].shape);
  const auto dims = [&](const TensorType& type) {
    return type.shape.rank() == 1 ? std::vector<int>{1} : AllLetters(rule);
  };
  for (const TensorType& input : context.inputs) rule.inputs.push_back(dims(input));
  bool is_sum = true;
  for (const TensorType& output : context.outputs) {
    rule.outputs.push_back(dims(output));
    is_sum = is_sum && output.shape.rank() == 1;
  }
  for (size_t d = 0; is_sum && d < rule.letters.size(); ++d) {
    if (d != 1) rule.letters[d].mark = FactorRule::Mark::kSum;
  }
  rule.linear = std::move(linear);
  return FromFactors(rule, context);
}

Result BatchNorm(const RuleContext& context) { return PerChannel(context, {}); }

Result Linear(const RuleContext& context) { return PerChannel(context, {{0}}); }

// dy and both of its sums: the sums of an addend of dy are the addends of the sums.
Result BatchNormDx(const RuleContext& context) { return PerChannel(context, {{0, 5, 6}}); }

}  // namespace

RuleList BatchNorms() {
  static constexpr OpRule kRules[] = {
      {"channel_mean", Linear},    {"channel_variance", BatchNorm}, {"batch_norm", BatchNorm},
      {"batch_norm_sums", Linear}, {"batch_norm_dx", BatchNormDx},
  };
  return kRules;
}

}  // namespace oneflow::rules
