#include "oneflow_core/nn/attention.h"

#include <cmath>

#include "oneflow_core/functional.h"
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
    y = Reshape(RmsNorm(by_head, norm, *options.qk_norm, loc), {samples, time, width}, loc);
  }
  return options.rotary.has_value() ? Rotary(y, heads, *options.rotary, loc) : y;
}

}  // namespace

Tensor SelfAttention(const Tensor& x, absl::string_view name, const AttentionOptions& options,
                     std::source_location loc) {
  if (!x.valid()) return Tensor();
  GraphBuilder& b = *x.builder();
  if (x.shape().rank() != 3) {
    b.Fail(absl::InvalidArgumentError(
        absl::StrCat("attention '", name, "': the input must be [batch, time, width] but is ", x.type().ToString())));
    return Tensor();
  }
  const GraphBuilder::Scope scope(b, name);
  const int64_t width = x.shape()[2], kv_heads = options.kv_heads > 0 ? options.kv_heads : options.heads;
  if (options.head_width == 0 && width % options.heads != 0) {
    b.Fail(absl::InvalidArgumentError(absl::StrCat("attention '", name, "': ", options.heads,
                                                   " heads do not divide the width of ", x.type().ToString())));
    return Tensor();
  }
  const bool has_plain_heads = kv_heads == options.heads && options.head_width == 0 && options.window == 0;
  if (options.kept_scores.has_value() && !(has_plain_heads && options.causal)) {
    b.Fail(absl::InvalidArgumentError(
        absl::StrCat("attention '", name,
                     "': scores are kept only of causal heads without groups, windows or a width of their own")));
    return Tensor();
  }
  const int64_t head_width = options.head_width > 0 ? options.head_width : width / options.heads;
  const auto lying = [&](const Tensor& y) {
    return options.says_how_it_lies ? y.ToWithGradient({{"tp", Sbp::Split(2)}}, loc) : y;
  };
  const auto projected = [&](absl::string_view projection, int64_t heads) {
    LinearOptions columns = ColumnSplit(heads * head_width, options.init);
    columns.bias = options.qkv_bias;
    return lying(Linear(x, projection, columns, loc));
  };
  const Tensor q = Placed(projected("q", options.heads), "q_norm", options.heads, options, loc);
  const Tensor k = Placed(projected("k", kv_heads), "k_norm", kv_heads, options, loc);
  const Tensor v = projected("v", kv_heads);
  Tensor mixed;
  {
    const GraphBuilder::Segment core(b, "attention");
    mixed =
        options.kept_scores.has_value()
            ? AttentionByScores(q, k, v, options, loc)
            : Attention(
                  q, k, v,
                  AttentionHeads{
                      .heads = options.heads, .kv_heads = kv_heads, .causal = options.causal, .window = options.window},
                  loc);
  }
  LinearOptions output = RowSplit(width, options.output_init);
  output.bias = options.output_bias;
  if (options.says_how_it_lies) output.product = Sbp::Partial();
  return Linear(lying(mixed), "o", output, loc);
}

}  // namespace oneflow::nn
