// Addends of a sum, or tensors of which the mean is meant, as rows of a tensor: each rank has a row, its own.
#include "sbp/rules/rules.h"

namespace oneflow::rules {
namespace {

Result Addends(const RuleContext& context) {
  std::vector<Signature> signatures;
  if (context.outputs[0].shape[0] == context.axis_size) {
    signatures.push_back({{Sbp::Partial()}, {Sbp::Split(0)}, "each rank's own"});
    signatures.push_back({{Sbp::Mean()}, {Sbp::Split(0)}, "each rank's own"});
  }
  for (int d = 0; d < context.inputs[0].shape.rank(); ++d) {
    signatures.push_back({{Sbp::Split(d)}, {Sbp::Split(d + 1)}, "of a part"});
  }
  return signatures;
}

}  // namespace

RuleList Codecs() {
  static constexpr OpRule kRules[] = {{"addends", Addends}};
  return kRules;
}

}  // namespace oneflow::rules
