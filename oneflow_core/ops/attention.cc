// attention with n heads of size d = c / n, for q, k, v [b,t,c]:
//
//   s[b,n,i,j] = sum over d of q[b,i,n,d] * k[b,j,n,d] / sqrt(d)         causal: only j <= i
//   p = softmax of s over j, lse = log of the sum of exp(s) over j
//   out[b,i,n,d] = sum over j of p[b,n,i,j] * v[b,j,n,d]
//
// lse is an output, so that the gradient recomputes p block by block instead of storing it.
#include "oneflow_core/grad_context.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"

namespace oneflow::ops {
namespace {

// The type of lse. Checks q, k, v and the attributes.
absl::StatusOr<TensorType> CheckHeads(const InferContext& c, const TensorType& q, const TensorType& k,
                                      const TensorType& v) {
  OF_RETURN_IF_ERROR(CheckSame("q", q, "k", k));
  OF_RETURN_IF_ERROR(CheckSame("q", q, "v", v));
  OF_ASSIGN_OR_RETURN(const int64_t heads, IntAttr(c.attrs, "heads", 1));
  OF_RETURN_IF_ERROR(BoolAttrOr(c.attrs, "causal", false).status());
  if (q.shape[2] % heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "attribute 'heads' is ", heads, " but must divide the last dimension of q, which is ", q.ToString()));
  }
  return TensorType{DType::kFloat32, {q.shape[0], heads, q.shape[1]}};
}

absl::StatusOr<Types> InferAttention(const InferContext& c) {
  OF_RETURN_IF_ERROR(
      CheckOperands(c, {{"q", kFloat, Exactly(3)}, {"k", kFloat, Exactly(3)}, {"v", kFloat, Exactly(3)}}));
  OF_ASSIGN_OR_RETURN(const TensorType lse, CheckHeads(c, c.inputs[0], c.inputs[1], c.inputs[2]));
  return Outputs({c.inputs[0], lse});
}

// The heads of a shard, which has whole ones only; 0 if they are not whole.
int64_t HeadsOfShard(const AttrMap& attrs, const ShardType& q) {
  const int64_t heads = attrs.Int("heads"), width = q.logical_dims[2] / heads;
  if (width == 0) return heads;
  return q.dims[2] % width == 0 ? q.dims[2] / width : 0;
}

AttrMap AttentionOfShard(const AttrMap& attrs, absl::Span<const ShardType> inputs, absl::Span<const ShardType>) {
  return With(attrs, "heads", HeadsOfShard(attrs, inputs[0]));
}

AttrMap AttentionGradOfShard(const AttrMap& attrs, absl::Span<const ShardType> inputs, absl::Span<const ShardType>) {
  return With(attrs, "heads", HeadsOfShard(attrs, inputs[1]));
}

absl::Status AttentionGrad(GradContext& c) {
  if (c.output_grad(1).has_value()) {
    return absl::UnimplementedError("no gradient flows through the lse of an attention");
  }
  const std::vector<Tensor> grads =
      c.Call("attention_grad", {*c.output_grad(0), c.input(0), c.input(1), c.input(2), c.output(0), c.output(1)},
             {{"heads", c.attrs().Int("heads")}, {"causal", c.attrs().Bool("causal")}});
  for (int i = 0; i < 3; ++i) c.SetInputGrad(i, grads[i]);
  return absl::OkStatus();
}

absl::StatusOr<Types> InferAttentionGrad(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"dout", kFloat},
                                       {"q", kFloat, Exactly(3)},
                                       {"k", kFloat, Exactly(3)},
                                       {"v", kFloat, Exactly(3)},
                                       {"out", kFloat},
                                       {"lse", kFloat32}}));
  const TensorType& q = c.inputs[1];
  OF_ASSIGN_OR_RETURN(const TensorType lse, CheckHeads(c, q, c.inputs[2], c.inputs[3]));
  OF_RETURN_IF_ERROR(CheckSame("dout", c.inputs[0], "q", q));
  OF_RETURN_IF_ERROR(CheckSame("out", c.inputs[4], "q", q));
  OF_RETURN_IF_ERROR(CheckType("lse", c.inputs[5], lse, absl::StrCat("q, which is ", q.ToString(), ",")));
  return Outputs({q, q, q});
}

// One product of [t,t] with [t,d] per head; causal: half of it.
double ProductFlops(const Shape& q, const AttrMap& attrs) {
  const double flops = 2.0 * static_cast<double>(q.count()) * static_cast<double>(q[1]);
  return attrs.Bool("causal") ? flops / 2 : flops;
}

// q kT and p v.
double AttentionFlops(absl::Span<const TensorType> inputs, absl::Span<const TensorType>, const AttrMap& attrs) {
  return 2 * ProductFlops(inputs[0].shape, attrs);
}

// p again, then dv, dp, dq and dk.
double AttentionGradFlops(absl::Span<const TensorType> inputs, absl::Span<const TensorType>, const AttrMap& attrs) {
  return 5 * ProductFlops(inputs[1].shape, attrs);
}

}  // namespace

void AddAttentionOps(OpRegistry& registry) {
  registry.Add({.name = "attention",
                .infer = InferAttention,
                .shard_attrs = AttentionOfShard,
                .grad = AttentionGrad,
                .flops = AttentionFlops,
                .precision = Precision::kCompute});
  registry.Add({.name = "attention_grad",
                .infer = InferAttentionGrad,
                .shard_attrs = AttentionGradOfShard,
                .flops = AttentionGradFlops,
                .precision = Precision::kCompute,
                .full_inputs = {5}});
}

}  // namespace oneflow::ops
