#include "oneflow_core/nn/attention.h"

#include <cmath>

#include "oneflow_core/functional.h"
#include "oneflow_core/nn/linear.h"

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

}  // namespace

Tensor CausalSelfAttention(const Tensor& x, absl::string_view name, const AttentionOptions& options,
                           std::source_location loc) {
  if (!x.valid()) return Tensor();
  GraphBuilder& b = *x.builder();
  if (x.shape().rank() != 3) {
    b.Fail(absl::InvalidArgumentError(
        absl::StrCat("attention '", name, "': the input must be [batch, time, width] but is ", x.type().ToString())));
    return Tensor();
  }
  const GraphBuilder::Scope scope(b, name);
  const int64_t width = x.shape()[2];
  const LinearOptions projection = ColumnSplit(width, options.init);
  const auto lying = [&](const Tensor& y) {
    return options.says_how_it_lies ? y.ToWithGradient({{"tp", Sbp::Split(2)}}, loc) : y;
  };
  const Tensor q = lying(Linear(x, "q", projection, loc));
  const Tensor k = lying(Linear(x, "k", projection, loc));
  const Tensor v = lying(Linear(x, "v", projection, loc));
  Tensor mixed;
  {
    const GraphBuilder::Segment core(b, "attention");
    mixed = options.kept_scores.has_value() ? AttentionByScores(q, k, v, options, loc)
                                            : Attention(q, k, v, options.heads, /*causal=*/true, loc);
  }
  LinearOptions output = RowSplit(width, options.output_init);
  if (options.says_how_it_lies) output.product = Sbp::Partial();
  return Linear(lying(mixed), "o", output, loc);
}

}  // namespace oneflow::nn
