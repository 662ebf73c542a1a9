// Sources make whatever part they are asked for: an initial value or a constant is a function of the logical index, a
// batch of data is read by rows.
#include <algorithm>

#include "sbp/rules/rules.h"

namespace oneflow::rules {
namespace {

Result Variable(const RuleContext& context) {
  FactorRule rule = OneLetterPerDimension(context.outputs[0].shape);
  rule.outputs = {AllLetters(rule)};
  return FromFactors(rule, context);
}

// The first dimension of every output counts samples. Outputs without dimensions have no samples to divide.
Result ReadData(const RuleContext& context) {
  const bool divisible = std::all_of(context.outputs.begin(), context.outputs.end(), [&](const TensorType& type) {
    return type.shape.rank() > 0 && type.shape[0] == context.outputs[0].shape[0];
  });
  if (!divisible) return std::vector<Signature>{};
  return std::vector<Signature>{{{}, std::vector<Sbp>(context.outputs.size(), Sbp::Split(0)), "samples"}};
}

}  // namespace

RuleList Sources() {
  static constexpr OpRule kRules[] = {
      {"variable", Variable}, {"constant", Variable},  {"literal", Variable},
      {"arange", Variable},   {"read_data", ReadData},
  };
  return kRules;
}

}  // namespace oneflow::rules
