#include "oneflow_core/nn/attention.h"

#include <cmath>

#include "oneflow_core/composed.h"
#include "oneflow_core/nn/linear.h"
#include "oneflow_core/nn/norm.h"

namespace oneflow::nn {
namespace {

// For each token that one lies ahead: what is left of such a score is 0 in 16 bits too.
constexpr double kMasked = -1e4;

// Attention(q, k, v), with scores that are there.
Tensor AttentionByScores(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                         std::source_location loc) {
  const int64_t samples = q.shape()[0], time = q.shape()[1], width = q.shape()[2], size = width / options.heads;
  const auto by_heads = [&](const Tensor& x) {
    return Transpose(Reshape(x, {samples, time, options.heads, size}, loc), {0, 2, 1, 3}, loc);
  };
  const Tensor scores = Scale(BatchMatMul(by_heads(q), by_heads(k), false, /*transpose_b=*/true, loc),
                              1 / std::sqrt(static_cast<double>(size)), loc);
  const Tensor mask = Cast(CausalMask(*q.builder(), time, kMasked, loc), scores.type().dtype, loc);
  const Tensor seen = Cast(Add(scores, mask, loc), *options.kept_scores, loc);
  const Tensor shares = Cast(Dropout(Softmax(seen, loc), options.dropout, loc), v.type().dtype, loc);
  const Tensor mixed = Transpose(BatchMatMul(shares, by_heads(v), false, false, loc), {0, 2, 1, 3}, loc);
  return Reshape(mixed, {samples, time, width}, loc);
}

// q or k, normalised and turned.
Tensor Placed(const Tensor& x, absl::string_view norm, int64_t heads, const AttentionOptions& options,
              std::source_location loc) {
  Tensor y = x;
  if (y.valid() && options.qk_norm.has_value()) {
    const int64_t samples = x.shape()[0], time = x.shape()[1], width = x.shape()[2];
    const Tensor by_head = Reshape(x, {samples, time, heads, width / heads}, loc);
    const Tensor normal = options.offset_norms ? OffsetRmsNorm(by_head, norm, *options.qk_norm, loc)
                                               : RmsNorm(by_head, norm, *options.qk_norm, loc);
    y = Reshape(normal, {samples, time, width}, loc);
  }
  return options.rotary.has_value() ? Rotary(y, heads, *options.rotary, loc) : y;
}

// Attention(q, k, v) as the options have it.
Tensor Mixed(const Tensor& q, const Tensor& k, const Tensor& v, int64_t kv_heads, const AttentionOptions& options,
             std::source_location loc) {
  if (!q.valid() || !k.valid() || !v.valid()) return Tensor();
  const GraphBuilder::Segment core(*q.builder(), "attention");
  if (options.kept_scores.has_value()) return AttentionByScores(q, k, v, options, loc);
  const AttentionHeads heads = {.heads = options.heads,
                                .kv_heads = kv_heads,
                                .causal = options.causal,
                                .window = options.window,
                                .scale = options.scale,
                                .soft_cap = options.soft_cap,
                                .dropout = options.dropout};
  return ScoredAttention(q, k, v, heads, {.documents = options.documents, .added = options.added}, loc);
}

// Whether attention of x to y with these heads exists; otherwise the builder fails.
bool IsPossible(const Tensor& x, const Tensor& y, absl::string_view name, int64_t kv_heads,
                const AttentionOptions& options) {
  const auto fail = [&](const std::string& what) {
    x.builder()->Fail(absl::InvalidArgumentError(absl::StrCat("attention '", name, "': ", what)));
    return false;
  };
  for (const Tensor& input : {x, y}) {
    if (input.shape().rank() == 3) continue;
    return fail(absl::StrCat("the input must be [batch, time, width] but is ", input.type().ToString()));
  }
  if (options.head_width == 0 && x.shape()[2] % options.heads != 0) {
    return fail(absl::StrCat(options.heads, " heads do not divide the width of ", x.type().ToString()));
  }
  const bool has_plain_heads = x.id() == y.id() && kv_heads == options.heads && options.head_width == 0 &&
                               options.window == 0 && options.scale == 0 && options.soft_cap == 0 &&
                               !options.documents.valid() && !options.added.valid();
  if (options.kept_scores.has_value() && !(has_plain_heads && options.causal)) {
    return fail(
        "scores are kept only of causal heads without groups, windows, caps, documents, added scores or a "
        "width of their own");
  }
  return true;
}

}  // namespace

Tensor SelfAttention(const Tensor& x, absl::string_view name, const AttentionOptions& options,
                     std::source_location loc) {
  return CrossAttention(x, x, name, options, loc);
}

Tensor CrossAttention(const Tensor& x, const Tensor& y, absl::string_view name, const AttentionOptions& options,
                      std::source_location loc) {
  if (!x.valid() || !y.valid()) return Tensor();
  const int64_t kv_heads = options.kv_heads > 0 ? options.kv_heads : options.heads;
  if (!IsPossible(x, y, name, kv_heads, options)) return Tensor();
  const GraphBuilder::Scope scope(*x.builder(), name);
  const int64_t width = x.shape()[2], head_width = options.head_width > 0 ? options.head_width : width / options.heads;
  const auto lying = [&](const Tensor& z) {
    return options.says_how_it_lies ? z.ToWithGradient({{"tp", Sbp::Split(2)}}, loc) : z;
  };
  const auto projected = [&](const Tensor& z, absl::string_view projection, int64_t heads, const std::string& init) {
    LinearOptions columns = ColumnSplit(heads * head_width, init);
    columns.bias = options.qkv_bias;
    return lying(Linear(z, projection, columns, loc));
  };
  const std::string& query_init = options.query_init.empty() ? options.init : options.query_init;
  const Tensor q = Placed(projected(x, "q", options.heads, query_init), "q_norm", options.heads, options, loc);
  const Tensor k = Placed(projected(y, "k", kv_heads, options.init), "k_norm", kv_heads, options, loc);
  const Tensor mixed = Mixed(q, k, projected(y, "v", kv_heads, options.init), kv_heads, options, loc);
  LinearOptions output = RowSplit(width, options.output_init);
  output.bias = options.output_bias;
  if (options.says_how_it_lies) output.product = Sbp::Partial();
  return Linear(lying(mixed), "o", output, loc);
}

}  // namespace oneflow::nn
