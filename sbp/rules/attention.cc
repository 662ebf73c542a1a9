// Attention is independent for every sample and every head. Heads are groups of columns: of c columns, head i has the
// i-th c/heads; a split of the columns is a split of the heads only if every rank gets whole heads, hence the
// divisibility, of the heads of k and v where those of q share them.
//
// It is not independent for every token. But where tokens lie split it can be computed in parts, as a ring of ranks
// pass on their keys (compiler/passes/ring_attention.cc). A signature that means this is none of a kernel.
#include <algorithm>

#include "sbp/rules/rules.h"

namespace oneflow::rules {
namespace {

// Operands are [batch, time, columns], but for the log-sum-exp and its gradient, [batch, heads, time], and documents,
// [batch, time], which all heads share.
Sbp OfHeads(const TensorType& x, bool is_lse) {
  if (x.dtype == DType::kInt32) return Sbp::Broadcast();
  return Sbp::Split(is_lse ? 1 : 2);
}

Sbp OfTokens(bool is_lse) { return Sbp::Split(is_lse ? 2 : 1); }

constexpr size_t kNoLse = ~size_t{0};

// `lse_input` and `lse_output`: which operand the log-sum-exp is; floats behind it are of its shape.
Result BatchAndHeads(const RuleContext& context, size_t lse_input, size_t lse_output) {
  const size_t num_inputs = context.inputs.size(), num_outputs = context.outputs.size();
  const Signature batch = {std::vector<Sbp>(num_inputs, Sbp::Split(0)), std::vector<Sbp>(num_outputs, Sbp::Split(0)),
                           "batch"};
  Signature heads = {{}, {}, "heads"}, tokens = {{}, {}, "tokens, in a ring"};
  tokens.is_ring = true;
  for (size_t i = 0; i < num_inputs; ++i) {
    heads.inputs.push_back(OfHeads(context.inputs[i], i >= lse_input));
    tokens.inputs.push_back(OfTokens(i >= lse_input && context.inputs[i].dtype != DType::kInt32));
  }
  for (size_t i = 0; i < num_outputs; ++i) {
    heads.outputs.push_back(OfHeads(context.outputs[i], i >= lse_output));
    tokens.outputs.push_back(OfTokens(i >= lse_output));
  }
  const int64_t heads_of_q = context.attrs.Int("heads", 1), heads_of_k = context.attrs.Int("kv_heads", heads_of_q);
  const size_t q = lse_input == kNoLse ? 0 : 1;
  std::vector<Signature> signatures;
  const bool has_documents = std::any_of(context.inputs.begin(), context.inputs.end(),
                                         [](const TensorType& x) { return x.dtype == DType::kInt32; });
  if (heads_of_k % context.axis_size == 0) {
    signatures.push_back(std::move(heads));
    tokens.is_uneven = has_documents;  // chunks of long documents have more to attend to
  }
  const bool has_samples = context.inputs[0].shape[0] >= context.axis_size;
  signatures.insert(has_samples ? signatures.begin() : signatures.end(), std::move(batch));
  const int64_t fewest = std::min(context.inputs[q].shape[1], context.inputs[q + 1].shape[1]);
  if (fewest >= context.axis_size) signatures.push_back(std::move(tokens));
  return signatures;
}

Result Attention(const RuleContext& context) { return BatchAndHeads(context, kNoLse, 1); }

Result AttentionGrad(const RuleContext& context) { return BatchAndHeads(context, 5, kNoLse); }

// Every head of every query by itself.
Result MergeAttention(const RuleContext& context) {
  const auto split = [](int of_out, int of_lse, const char* why) {
    const Sbp out = Sbp::Split(of_out), lse = Sbp::Split(of_lse);
    return Signature{{out, lse, out, lse}, {out, lse}, why};
  };
  std::vector<Signature> signatures = {split(0, 0, "batch"), split(1, 2, "tokens")};
  if (context.inputs[1].shape[1] % context.axis_size == 0) signatures.push_back(split(2, 1, "heads"));
  return signatures;
}

// Every position of every head is turned by itself, and the turn is linear.
Result Rotary(const RuleContext& context) {
  FactorRule rule = OneLetterPerDimension(context.inputs[0].shape);
  std::vector<int> dims = AllLetters(rule);
  if (context.attrs.Int("heads", 1) % context.axis_size != 0) dims[2] = FactorRule::kNone;
  rule.inputs = {dims};
  rule.outputs = {dims};
  rule.linear = {{0}};
  return FromFactors(rule, context);
}

}  // namespace

RuleList Attentions() {
  static constexpr OpRule kRules[] = {
      {"attention", Attention},
      {"attention_grad", AttentionGrad},
      {"merge_attention", MergeAttention},
      {"rotary", Rotary},
  };
  return kRules;
}

}  // namespace oneflow::rules
