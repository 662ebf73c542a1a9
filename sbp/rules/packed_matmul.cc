// Packed weights are split where whole panels are cut (oneflow_core/packed.h):
//
//   pack_weight      w[k,n]               ->  [n/64, k/2, 64, 2]     k: S(0)->S(1)    n: S(1)->S(0)
//   ..._both_ways    w[k,n]               ->  that, and [k/64, n/2, 64, 2]
//   packed_matmul    a[..,k], packed      ->  [.., n]                as matmul
//   ..._bias, ..._bias_gelu, ..._gelu_bias_grad        rows and n alone, since what follows needs whole sums
//   sum_packed_...   a, packed, b, packed, ...  ->  [.., n]          k of all at once
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

// Rows of a and columns n of the packed weight, whose k every rank has whole.
struct Biased {
  FactorRule rule;
  std::vector<int> rows, y;
  int n;
};
Biased RowsAndColumns(const RuleContext& context) {
  Biased result = {OneLetterPerDimension(context.inputs[0].shape), {}, {}, kNone};
  FactorRule& rule = result.rule;
  rule.letters.pop_back();
  result.rows = AllLetters(rule);
  result.n = LetterOf("n", context.inputs[1].shape[kPackedColumns] * kPanelColumns, kPanelColumns, context, rule);
  result.y = result.rows;
  result.y.push_back(result.n);
  std::vector<int> a = result.rows;
  a.push_back(kNone);
  rule.inputs = {a, {result.n, kNone, kNone, kNone}};
  return result;
}

Result PackedBias(const RuleContext& context) {
  Biased biased = RowsAndColumns(context);
  biased.rule.inputs.push_back({biased.n});
  biased.rule.outputs.assign(context.outputs.size(), biased.y);
  if (context.outputs.size() == 1) biased.rule.linear = {{0, 2}};  // a gelu is not
  return FromFactors(biased.rule, context);
}

Result PackedGeluBiasGrad(const RuleContext& context) {
  Biased biased = RowsAndColumns(context);
  biased.rule.inputs.push_back(biased.y);
  biased.rule.outputs = {biased.y, {biased.n}};
  biased.rule.linear = {{0}};
  return FromFactors(biased.rule, context);
}

Result SumPacked(const RuleContext& context) {
  FactorRule rule = OneLetterPerDimension(context.inputs[0].shape);
  rule.letters.pop_back();
  const std::vector<int> rows = AllLetters(rule);
  const auto size_of_k = [&](size_t a) { return context.inputs[a].shape.dims().back(); };
  const int n = LetterOf("n", context.inputs[1].shape[kPackedColumns] * kPanelColumns, kPanelColumns, context, rule);
  bool same_k = true;
  for (size_t a = 2; a < context.inputs.size(); a += 2) same_k = same_k && size_of_k(a) == size_of_k(0);
  const int k = same_k ? LetterOf("k", size_of_k(0), kPanelRows, context, rule) : kNone;
  if (k != kNone) rule.letters[k].mark = FactorRule::Mark::kSum;
  std::vector<int> partial;
  for (size_t i = 0; i < context.inputs.size(); i += 2) {
    std::vector<int> a = rows;
    a.push_back(k);
    rule.inputs.push_back(a);
    rule.inputs.push_back({n, k, kNone, kNone});
    partial.push_back(static_cast<int>(i));
  }
  std::vector<int> y = rows;
  y.push_back(n);
  rule.outputs = {y};
  rule.linear = {partial};
  return FromFactors(rule, context);
}

}  // namespace

RuleList PackedProducts() {
  static constexpr OpRule kRules[] = {
      {"pack_weight", PackWeight},
      {"pack_weight_both_ways", PackBothWays},
      {"packed_matmul", PackedMatmul},
      {"packed_matmul_bias", PackedBias},
      {"packed_matmul_bias_gelu", PackedBias},
      {"packed_matmul_gelu_bias_grad", PackedGeluBiasGrad},
      {"sum_packed_matmul", SumPacked},
  };
  return kRules;
}

}  // namespace oneflow::rules
