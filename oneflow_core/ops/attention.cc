// attention of n heads of size d, for q [b,t,n d] and k, v [b,s,m d], where m divides n (Ainslie et al., "GQA", 2023):
// head h of q reads the h / (n/m)-th head of k and v.
//
//   s[b,h,i,j] = scale * sum over d of q[b,i,h,d] * k[b,j,h m/n,d]     visible: j <= i if causal, j > i - window,
//   of a cap c: c tanh(s / c) instead                                            the documents of i and j are the same
//   p = softmax of s over visible j, lse = log of the sum of exp(s) over j
//   out[b,i,h,d] = sum over j of dropout(p)[b,h,i,j] * v[b,j,h m/n,d]
//
// Of `share` 1 or 2 only the first or the second half of the heads see keys.
//
// lse is an output, so that the gradient recomputes p block by block instead of storing it, and so that attention over
// some keys can be merged with that over others. Where i sees no key, out is 0 and lse is -infinity.
//
// merge_attention of (out_a, lse_a) and (out_b, lse_b), over disjoint keys:
//
//   lse = log(exp(lse_a) + exp(lse_b))     out = exp(lse_a - lse) out_a + exp(lse_b - lse) out_b
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

// Which keys a query sees. Of shards, the parts of queries and of keys may be others.
absl::Status CheckMask(const InferContext& c, const TensorType& q, const TensorType& k) {
  const AttrMap& attrs = c.attrs;
  OF_ASSIGN_OR_RETURN(const bool causal, BoolAttrOr(attrs, "causal", false));
  OF_ASSIGN_OR_RETURN(const int64_t window, IntAttrOr(attrs, "window", 0, 0));
  if (window > 0 && !causal) {
    return absl::InvalidArgumentError(
        absl::StrCat("attribute 'window' is ", window, ", which only a causal attention may have"));
  }
  if (causal && !c.of_shards && q.shape[1] != k.shape[1]) {
    return absl::InvalidArgumentError(absl::StrCat("a causal attention needs as many keys as queries, but q is ",
                                                   q.ToString(), ", k is ", k.ToString()));
  }
  return absl::OkStatus();
}

// What becomes of scores and of their softmax.
absl::Status CheckScores(const AttrMap& attrs) {
  OF_RETURN_IF_ERROR(NumberAttrOr(attrs, "scale", 1).status());
  OF_ASSIGN_OR_RETURN(const double soft_cap, NumberAttrOr(attrs, "soft_cap", 0));
  if (!(soft_cap >= 0)) {
    return absl::InvalidArgumentError(absl::StrCat("attribute 'soft_cap' is ", soft_cap, " but must not be negative"));
  }
  OF_ASSIGN_OR_RETURN(const double dropout, NumberAttrOr(attrs, "dropout", 0));
  if (!(dropout >= 0 && dropout < 1)) {
    return absl::InvalidArgumentError(absl::StrCat("attribute 'dropout' is ", dropout, " but must be in [0, 1)"));
  }
  OF_ASSIGN_OR_RETURN(const int64_t share, IntAttrOr(attrs, "share", 0, 0));
  if (share > 2) {
    return absl::InvalidArgumentError(absl::StrCat("attribute 'share' is ", share, " but must be in [0, 2]"));
  }
  return CheckKeyAttr(attrs);
}

// Optional inputs behind `plain` others: documents, and, of a gradient, that of lse.
bool HasDocuments(size_t inputs, size_t plain) { return inputs >= plain + 2; }

// Adds the documents to what an op must have.
void AddDocuments(std::vector<Operand>& operands, size_t inputs) {
  if (!HasDocuments(inputs, operands.size())) return;
  operands.push_back({"query_documents", kIndex, Exactly(2)});
  operands.push_back({"key_documents", kIndex, Exactly(2)});
}

// Those behind q and k, which are inputs `query` and `query` + 1, are of their tokens.
absl::Status CheckDocuments(const InferContext& c, size_t query, size_t plain) {
  if (!HasDocuments(c.inputs.size(), plain)) return absl::OkStatus();
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const TensorType &x = c.inputs[query + i], tokens = {DType::kInt32, {x.shape[0], x.shape[1]}};
    OF_RETURN_IF_ERROR(CheckType(i == 0 ? "query_documents" : "key_documents", c.inputs[plain + i], tokens,
                                 absl::StrCat(i == 0 ? "q" : "k", ", which is ", x.ToString(), ",")));
  }
  return absl::OkStatus();
}

// The type of lse. Checks q, k, v and the attributes.
absl::StatusOr<TensorType> CheckHeads(const InferContext& c, const TensorType& q, const TensorType& k,
                                      const TensorType& v) {
  OF_RETURN_IF_ERROR(CheckSame("k", k, "v", v));
  OF_ASSIGN_OR_RETURN(const int64_t heads, IntAttr(c.attrs, "heads", 1));
  OF_ASSIGN_OR_RETURN(const int64_t kv_heads, IntAttrOr(c.attrs, "kv_heads", heads, 1));
  OF_RETURN_IF_ERROR(CheckScores(c.attrs));
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
  OF_RETURN_IF_ERROR(CheckMask(c, q, k));
  return TensorType{DType::kFloat32, {q.shape[0], heads, q.shape[1]}};
}

absl::StatusOr<Types> InferAttention(const InferContext& c) {
  std::vector<Operand> operands = {{"q", kFloat, Exactly(3)}, {"k", kFloat, Exactly(3)}, {"v", kFloat, Exactly(3)}};
  AddDocuments(operands, c.inputs.size());
  OF_RETURN_IF_ERROR(CheckOperands(c, operands));
  OF_ASSIGN_OR_RETURN(const TensorType lse, CheckHeads(c, c.inputs[0], c.inputs[1], c.inputs[2]));
  OF_RETURN_IF_ERROR(CheckDocuments(c, 0, 3));
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
  const Tensor dout = c.output_grad_or_zeros(0);
  std::vector<Tensor> inputs = {dout, c.input(0), c.input(1), c.input(2), c.output(0), c.output(1)};
  AttrMap attrs = c.attrs();
  if (c.num_inputs() > 3) inputs.insert(inputs.end(), {c.input(3), c.input(4)});
  if (c.output_grad(1).has_value()) inputs.push_back(*c.output_grad(1));
  // The string the forward node draws by, which is its name if `key` is none.
  if (attrs.Double("dropout") > 0) attrs.Set("key", attrs.String("key", c.name()));
  const std::vector<Tensor> grads = c.Call("attention_grad", inputs, std::move(attrs));
  for (int i = 0; i < 3; ++i) c.SetInputGrad(i, grads[i]);
  return absl::OkStatus();
}

absl::StatusOr<Types> InferAttentionGrad(const InferContext& c) {
  constexpr size_t kPlain = 6;
  std::vector<Operand> operands = {{"dout", kFloat},          {"q", kFloat, Exactly(3)}, {"k", kFloat, Exactly(3)},
                                   {"v", kFloat, Exactly(3)}, {"out", kFloat},           {"lse", kFloat32}};
  AddDocuments(operands, c.inputs.size());
  const bool has_dlse = c.inputs.size() > operands.size();
  if (has_dlse) operands.push_back({"dlse", kFloat32});
  OF_RETURN_IF_ERROR(CheckOperands(c, operands));
  const TensorType& q = c.inputs[1];
  OF_ASSIGN_OR_RETURN(const TensorType lse, CheckHeads(c, q, c.inputs[2], c.inputs[3]));
  OF_RETURN_IF_ERROR(CheckSame("dout", c.inputs[0], "q", q));
  OF_RETURN_IF_ERROR(CheckSame("out", c.inputs[4], "q", q));
  OF_RETURN_IF_ERROR(CheckType("lse", c.inputs[5], lse, absl::StrCat("q, which is ", q.ToString(), ",")));
  OF_RETURN_IF_ERROR(CheckDocuments(c, 1, kPlain));
  if (has_dlse) OF_RETURN_IF_ERROR(CheckSame("dlse", c.inputs.back(), "lse", lse));
  return Outputs({q, c.inputs[2], c.inputs[3]});
}

// lse says how many heads there are.
absl::StatusOr<Types> InferMergeAttention(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"out_a", kFloat32, Exactly(3)},
                                       {"lse_a", kFloat32, Exactly(3)},
                                       {"out_b", kFloat32, Exactly(3)},
                                       {"lse_b", kFloat32, Exactly(3)}}));
  const TensorType &out = c.inputs[0], &lse = c.inputs[1];
  OF_RETURN_IF_ERROR(CheckSame("out_a", out, "out_b", c.inputs[2]));
  OF_RETURN_IF_ERROR(CheckSame("lse_a", lse, "lse_b", c.inputs[3]));
  const int64_t heads = lse.shape[1];
  OF_RETURN_IF_ERROR(CheckType("lse_a", lse, {DType::kFloat32, {out.shape[0], heads, out.shape[1]}},
                               absl::StrCat("out_a, which is ", out.ToString(), ",")));
  if (heads == 0 ? out.shape[2] != 0 : out.shape[2] % heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat("lse_a is ", lse.ToString(), ", of ", heads,
                                                   " heads, which must divide the last dimension of out_a, which is ",
                                                   out.ToString()));
  }
  return Outputs({out, lse});
}

// One product of [t,s] with [s,d] per head. Causal: half of it, with a window only so many keys of each query.
double ProductFlops(const Shape& q, const Shape& k, const AttrMap& attrs) {
  const auto keys = static_cast<double>(k[1]);
  double seen = attrs.Bool("causal") ? keys / 2 : keys;
  if (const int64_t window = attrs.Int("window"); window > 0) seen = std::min(seen, static_cast<double>(window));
  const double share = attrs.Int("share") > 0 ? 0.5 : 1;
  return 2.0 * share * static_cast<double>(q.count()) * seen;
}

// q kT and p v.
double AttentionFlops(absl::Span<const TensorType> inputs, absl::Span<const TensorType>, const AttrMap& attrs) {
  return 2 * ProductFlops(inputs[0].shape, inputs[1].shape, attrs);
}

// p again, then dv, dp, dq and dk.
double AttentionGradFlops(absl::Span<const TensorType> inputs, absl::Span<const TensorType>, const AttrMap& attrs) {
  return 5 * ProductFlops(inputs[1].shape, inputs[2].shape, attrs);
}

// Behind `plain` inputs there may be documents, and, of a gradient, that of lse.
std::vector<RingSide> RingOf(std::vector<RingSide> plain, size_t inputs, std::vector<RingSide> outputs) {
  std::vector<RingSide> sides = std::move(plain);
  if (HasDocuments(inputs, sides.size())) sides.insert(sides.end(), {RingSide::kQueries, RingSide::kKeys});
  sides.resize(inputs, RingSide::kQueries);
  sides.insert(sides.end(), outputs.begin(), outputs.end());
  return sides;
}

std::vector<RingSide> AttentionRing(size_t inputs, size_t) {
  constexpr RingSide kQ = RingSide::kQueries, kK = RingSide::kKeys;
  return RingOf({kQ, kK, kK}, inputs, {kQ, kQ});
}

std::vector<RingSide> AttentionGradRing(size_t inputs, size_t) {
  constexpr RingSide kQ = RingSide::kQueries, kK = RingSide::kKeys;
  return RingOf({kQ, kQ, kK, kK, kQ, kQ}, inputs, {kQ, kK, kK});
}

}  // namespace

void AddAttentionOps(OpRegistry& registry) {
  registry.Add({.name = "attention",
                .infer = InferAttention,
                .shard_attrs = AttentionOfShard,
                .grad = AttentionGrad,
                .flops = AttentionFlops,
                .random = true,
                .precision = Precision::kCompute,
                .ring = AttentionRing,
                .merged_by = "merge_attention"});
  registry.Add({.name = "attention_grad",
                .infer = InferAttentionGrad,
                .shard_attrs = AttentionGradOfShard,
                .flops = AttentionGradFlops,
                .random = true,
                .precision = Precision::kCompute,
                .full_inputs = {5, 6, 8},  // lse, and dlse without documents and behind them
                .ring = AttentionGradRing});
  registry.Add({.name = "merge_attention",
                .infer = InferMergeAttention,
                .flops = [](absl::Span<const TensorType> inputs, absl::Span<const TensorType>,
                            const AttrMap&) { return 3.0 * static_cast<double>(inputs[0].shape.count()); },
                .in_place = {{0, 0}, {1, 1}}});
}

}  // namespace oneflow::ops
