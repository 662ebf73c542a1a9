// The ops whose signatures depend on attributes or ranks, which a rule text cannot say. Most of them build a FactorRule and are
// derived from it like any other; the table in table.cc names them all.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "oneflow_core/op.h"
#include "sbp/factor_rule.h"
#include "sbp/signatures.h"

namespace oneflow {

// One op with concrete operands, along one mesh axis. Types and attributes have passed the op's `infer`.
struct RuleContext {
  absl::Span<const TensorType> inputs;
  absl::Span<const TensorType> outputs;
  const AttrMap& attrs;
  int axis_size;
};

// The signatures of an op besides all-B, which every op has, best first; duplicates are removed by the caller.
using RuleFn = absl::StatusOr<std::vector<Signature>> (*)(const RuleContext&);

// The op's own rule, or null if its rule text says everything.
RuleFn FindRule(absl::string_view op);

// What follows from a factor rule: letters at least as large as the axis, then linear sets, then letters that would leave some
// ranks without a single element. P is not offered for types that cannot be added (bool, u8).
std::vector<Signature> FromFactors(const FactorRule& rule, const RuleContext& context);
// The same for a rule text.
absl::StatusOr<std::vector<Signature>> FromText(absl::string_view text, const RuleContext& context);

// A rule with one letter for each dimension of `shape`, no operands yet; and the letters in order.
FactorRule OneLetterPerDimension(const Shape& shape);
std::vector<int> AllLetters(const FactorRule& rule);

namespace rules {

using Result = absl::StatusOr<std::vector<Signature>>;

Result Variable(const RuleContext& context);       // variable, constant
Result ReadData(const RuleContext& context);       // read_data
Result Identity(const RuleContext& context);       // to, boxing
Result Replicated(const RuleContext& context);     // fetch, sample_token, append_token
Result Cast(const RuleContext& context);           // cast
Result BiasAdd(const RuleContext& context);        // bias_add
Result BiasGrad(const RuleContext& context);       // bias_grad
Result AddN(const RuleContext& context);           // add_n
Result ReduceSum(const RuleContext& context);      // reduce_sum, reduce_mean
Result ReduceMax(const RuleContext& context);      // reduce_max
Result ReduceMin(const RuleContext& context);      // reduce_min
Result ExtremumCount(const RuleContext& context);  // extremum_count
Result ExtremumGrad(const RuleContext& context);   // extremum_grad
Result SumTo(const RuleContext& context);          // sum_to
Result BroadcastTo(const RuleContext& context);    // broadcast_to
Result Reshape(const RuleContext& context);        // reshape
Result Transpose(const RuleContext& context);      // transpose
Result Slice(const RuleContext& context);          // slice, slice_grad, cumsum
Result Pad(const RuleContext& context);            // pad
Result Concat(const RuleContext& context);         // concat
Result MatMul(const RuleContext& context);         // matmul
Result MatMulWgrad(const RuleContext& context);    // matmul_wgrad
Result BatchMatMul(const RuleContext& context);    // batch_matmul
Result BatchNorm(const RuleContext& context);      // channel_variance, batch_norm
Result BatchNormSums(const RuleContext& context);  // batch_norm_sums
Result BatchNormDx(const RuleContext& context);    // batch_norm_dx
Result Attention(const RuleContext& context);      // attention
Result AttentionGrad(const RuleContext& context);  // attention_grad
Result Gather(const RuleContext& context);         // gather
Result ScatterAdd(const RuleContext& context);     // scatter_add

Result ReplicaDigest(const RuleContext& context);   // replica_digest
Result AssertReplicas(const RuleContext& context);  // assert_replicas

}  // namespace rules
}  // namespace oneflow
