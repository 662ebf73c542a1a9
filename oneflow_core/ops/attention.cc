// attention of n heads of size d, for q [b,t,n d] and k, v [b,s,m d], where m divides n (Ainslie et al., "GQA", 2023):
// head h of q reads the h / (n/m)-th head of k and v.
//
//   s[b,h,i,j] = scale * sum over d of q[b,i,h,d] * k[b,j,h m/n,d]     visible: j <= i if causal, j > i - window
//   p = softmax of s over visible j, lse = log of the sum of exp(s) over j
//   out[b,i,h,d] = sum over j of p[b,h,i,j] * v[b,j,h m/n,d]
//
// lse is an output, so that the gradient recomputes p block by block instead of storing it.
#include <algorithm>

#include "oneflow_core/grad_context.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"

namespace oneflow::ops {
namespace {

absl::Status CheckDivides(absl::string_view name, int64_t heads, absl::string_view operand, const TensorType& x) {
  if (x.shape[2] % heads == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("attribute '", name, "' is ", heads,
                                                 " but must divide the last dimension of ", operand, ", which is ",
                                                 x.ToString()));
}

// Which keys a query sees.
absl::Status CheckMask(const AttrMap& attrs, const TensorType& q, const TensorType& k) {
  OF_ASSIGN_OR_RETURN(const bool causal, BoolAttrOr(attrs, "causal", false));
  OF_ASSIGN_OR_RETURN(const int64_t window, IntAttrOr(attrs, "window", 0, 0));
  if (window > 0 && !causal) {
    return absl::InvalidArgumentError(
        absl::StrCat("attribute 'window' is ", window, ", which only a causal attention may have"));
  }
  if (causal && q.shape[1] != k.shape[1]) {
    return absl::InvalidArgumentError(absl::StrCat("a causal attention needs as many keys as queries, but q is ",
                                                   q.ToString(), ", k is ", k.ToString()));
  }
  if (k.shape[1] == 0 && q.shape[1] > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("k is ", k.ToString(), ", which has no keys for the queries of q, which is ", q.ToString()));
  }
  return absl::OkStatus();
}

// The type of lse. Checks q, k, v and the attributes.
absl::StatusOr<TensorType> CheckHeads(const InferContext& c, const TensorType& q, const TensorType& k,
                                      const TensorType& v) {
  OF_RETURN_IF_ERROR(CheckSame("k", k, "v", v));
  OF_ASSIGN_OR_RETURN(const int64_t heads, IntAttr(c.attrs, "heads", 1));
  OF_ASSIGN_OR_RETURN(const int64_t kv_heads, IntAttrOr(c.attrs, "kv_heads", heads, 1));
  OF_RETURN_IF_ERROR(NumberAttrOr(c.attrs, "scale", 1).status());
  OF_RETURN_IF_ERROR(CheckDivides("heads", heads, "q", q));
  OF_RETURN_IF_ERROR(CheckDivides("kv_heads", kv_heads, "k", k));
  if (heads % kv_heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("attribute 'kv_heads' is ", kv_heads, " but must divide attribute 'heads', which is ", heads));
  }
  const bool same_heads = q.shape[2] / heads == k.shape[2] / kv_heads;
  if (q.shape[0] != k.shape[0] || !same_heads) {
    return absl::InvalidArgumentError(absl::StrCat("q is ", q.ToString(), " with ", heads, " heads, k is ",
                                                   k.ToString(), " with ", kv_heads,
                                                   "; they must have samples and sizes of heads in common"));
  }
  OF_RETURN_IF_ERROR(CheckMask(c.attrs, q, k));
  return TensorType{DType::kFloat32, {q.shape[0], heads, q.shape[1]}};
}

absl::StatusOr<Types> InferAttention(const InferContext& c) {
  OF_RETURN_IF_ERROR(
      CheckOperands(c, {{"q", kFloat, Exactly(3)}, {"k", kFloat, Exactly(3)}, {"v", kFloat, Exactly(3)}}));
  OF_ASSIGN_OR_RETURN(const TensorType lse, CheckHeads(c, c.inputs[0], c.inputs[1], c.inputs[2]));
  return Outputs({c.inputs[0], lse});
}

// The heads of a shard, which has whole ones only; 0 if they are not whole.
int64_t HeadsOfShard(int64_t heads, const ShardType& x) {
  const int64_t width = x.logical_dims[2] / heads;
  if (width == 0) return heads;
  return x.dims[2] % width == 0 ? x.dims[2] / width : 0;
}

AttrMap OfShard(AttrMap attrs, const ShardType& q, const ShardType& k) {
  const int64_t heads = attrs.Int("heads"), kv_heads = attrs.Int("kv_heads", heads);
  attrs.Set("heads", HeadsOfShard(heads, q));
  if (attrs.Has("kv_heads")) attrs.Set("kv_heads", HeadsOfShard(kv_heads, k));
  return attrs;
}

AttrMap AttentionOfShard(const AttrMap& attrs, absl::Span<const ShardType> inputs, absl::Span<const ShardType>) {
  return OfShard(attrs, inputs[0], inputs[1]);
}

AttrMap AttentionGradOfShard(const AttrMap& attrs, absl::Span<const ShardType> inputs, absl::Span<const ShardType>) {
  return OfShard(attrs, inputs[1], inputs[2]);
}

absl::Status AttentionGrad(GradContext& c) {
  if (c.output_grad(1).has_value()) {
    return absl::UnimplementedError("no gradient flows through the lse of an attention");
  }
  const std::vector<Tensor> grads = c.Call(
      "attention_grad", {*c.output_grad(0), c.input(0), c.input(1), c.input(2), c.output(0), c.output(1)}, c.attrs());
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
  return Outputs({q, c.inputs[2], c.inputs[3]});
}

// One product of [t,s] with [s,d] per head. Causal: half of it, with a window only so many keys of each query.
double ProductFlops(const Shape& q, const Shape& k, const AttrMap& attrs) {
  const auto keys = static_cast<double>(k[1]);
  double seen = attrs.Bool("causal") ? keys / 2 : keys;
  if (const int64_t window = attrs.Int("window"); window > 0) seen = std::min(seen, static_cast<double>(window));
  return 2.0 * static_cast<double>(q.count()) * seen;
}

// q kT and p v.
double AttentionFlops(absl::Span<const TensorType> inputs, absl::Span<const TensorType>, const AttrMap& attrs) {
  return 2 * ProductFlops(inputs[0].shape, inputs[1].shape, attrs);
}

// p again, then dv, dp, dq and dk.
double AttentionGradFlops(absl::Span<const TensorType> inputs, absl::Span<const TensorType>, const AttrMap& attrs) {
  return 5 * ProductFlops(inputs[1].shape, inputs[2].shape, attrs);
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
