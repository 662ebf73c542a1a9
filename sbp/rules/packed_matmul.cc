// Packed weights are split where whole panels are cut (oneflow_core/packed.h):
//
//   pack_weight      w[k,n]               ->  [n/64, k/2, 64, 2]     k: S(0)->S(1)    n: S(1)->S(0)
//   ..._both_ways    w[k,n]               ->  that, and [k/64, n/2, 64, 2]
//   packed_matmul    a[..,k], packed      ->  [.., n]                as matmul
#include <algorithm>

#include "oneflow_core/packed.h"
#include "sbp/rules/rules.h"

namespace oneflow::rules {
namespace {

constexpr int kPackedColumns = 0, kPackedRows = 1;  // dimensions of what is packed

// The letter of a dimension that has a multiple of `unit` elements on every rank, or none.
int LetterOf(absl::string_view name, int64_t size, int64_t unit, const RuleContext& context, FactorRule& rule) {
  if (size % (unit * context.axis_size) != 0) return FactorRule::kNone;
  rule.letters.push_back({std::string(name)});
  return static_cast<int>(rule.letters.size()) - 1;
}

// Of what is packed to `packed`: k and n.
std::pair<int, int> PackedLetters(const Shape& packed, const RuleContext& context, FactorRule& rule) {
  const int k = LetterOf("k", packed[kPackedRows] * kPairedRows, kPanelRows, context, rule);
  const int n = LetterOf("n", packed[kPackedColumns] * kPanelColumns, kPanelColumns, context, rule);
  return {k, n};
}

constexpr int kNone = FactorRule::kNone;

Result PackWeight(const RuleContext& context) {
  FactorRule rule;
  const auto [k, n] = PackedLetters(context.outputs[0].shape, context, rule);
  rule.inputs = {context.attrs.Bool("transpose") ? std::vector<int>{n, k} : std::vector<int>{k, n}};
  rule.outputs = {{n, k, kNone, kNone}};
  return FromFactors(rule, context);
}

Result PackBothWays(const RuleContext& context) {
  FactorRule rule;
  const Shape& w = context.inputs[0].shape;
  const int64_t unit = std::max(kPanelRows, kPanelColumns);
  const int k = LetterOf("k", w[0], unit, context, rule), n = LetterOf("n", w[1], unit, context, rule);
  rule.inputs = {{k, n}};
  rule.outputs = {{n, k, kNone, kNone}, {k, n, kNone, kNone}};
  return FromFactors(rule, context);
}

Result PackedMatmul(const RuleContext& context) {
  FactorRule rule = OneLetterPerDimension(context.inputs[0].shape);
  rule.letters.pop_back();
  std::vector<int> a = AllLetters(rule);
  const auto [k, n] = PackedLetters(context.inputs[1].shape, context, rule);
  std::vector<int> y = a;
  a.push_back(k);
  y.push_back(n);
  if (k != kNone) rule.letters[k].mark = FactorRule::Mark::kSum;
  rule.inputs = {a, {n, k, kNone, kNone}};
  rule.outputs = {y};
  rule.linear = {{0}};  // in the weight too, but nothing partial is packed
  return FromFactors(rule, context);
}

}  // namespace

RuleList PackedProducts() {
  static constexpr OpRule kRules[] = {
      {"pack_weight", PackWeight},
      {"pack_weight_both_ways", PackBothWays},
      {"packed_matmul", PackedMatmul},
  };
  return kRules;
}

}  // namespace oneflow::rules
