#include "oneflow_core/nn/latent_attention.h"

#include <algorithm>
#include <cmath>

#include "oneflow_core/functional.h"
#include "oneflow_core/nn/linear.h"
#include "oneflow_core/nn/norm.h"

namespace oneflow::nn {
namespace {

class Latent {
 public:
  Latent(const Tensor& x, const LatentAttentionOptions& options, std::source_location loc)
      : x_(x), o_(options), loc_(loc), samples_(x.shape()[0]), time_(x.shape()[1]) {}

  Tensor Out() const {
    const int64_t plain = o_.plain_width, value = o_.value_width;
    const Tensor down = Narrowed(x_, "kv_down", o_.rank + o_.rotary_width);
    const Tensor c = RmsNorm(Slice(down, 2, 0, o_.rank, loc_), "kv_norm", o_.epsilon, loc_);
    const Tensor kv = ByHead(Widened(c, "kv_up", plain + value));
    const Tensor q = Queries(), k = Keys(Slice(kv, 3, 0, plain, loc_), Slice(down, 2, o_.rank, o_.rotary_width, loc_));
    const Tensor mixed = Mixed(q, k, Slice(kv, 3, plain, value, loc_));
    LinearOptions output = RowSplit(x_.shape()[2], o_.output_init);
    output.bias = false;
    return Linear(mixed, "o", output, loc_);
  }

 private:
  Tensor Narrowed(const Tensor& x, absl::string_view name, int64_t width) const {
    return Linear(x, name, {.width = width, .bias = false, .init = o_.init}, loc_);
  }
  // `width` columns for each head.
  Tensor Widened(const Tensor& x, absl::string_view name, int64_t width) const {
    LinearOptions columns = ColumnSplit(o_.heads * width, o_.init);
    columns.bias = false;
    return Linear(x, name, columns, loc_);
  }
  Tensor ByHead(const Tensor& x) const { return Reshape(x, {samples_, time_, o_.heads, -1}, loc_); }
  Tensor Flat(const Tensor& x) const { return Reshape(x, {samples_, time_, -1}, loc_); }
  int64_t key_width() const { return o_.plain_width + o_.rotary_width; }

  // [batch, time, heads, plain + rotary], as keys.
  Tensor Queries() const {
    const Tensor narrow =
        o_.query_rank > 0 ? RmsNorm(Narrowed(x_, "q_down", o_.query_rank), "q_norm", o_.epsilon, loc_) : x_;
    const Tensor q = ByHead(Widened(narrow, o_.query_rank > 0 ? "q_up" : "q", key_width()));
    const Tensor last = Flat(Slice(q, 3, o_.plain_width, o_.rotary_width, loc_));
    return Concat({Slice(q, 3, 0, o_.plain_width, loc_), ByHead(Rotary(last, o_.heads, o_.rotary, loc_))}, 3, loc_);
  }
  Tensor Keys(const Tensor& plain, const Tensor& of_all_heads) const {
    const Tensor turned = Reshape(Rotary(of_all_heads, 1, o_.rotary, loc_), {samples_, time_, 1, -1}, loc_);
    return Concat({plain, BroadcastTo(turned, {samples_, time_, o_.heads, o_.rotary_width}, loc_)}, 3, loc_);
  }

  // With zeros behind each head's columns, since heads of queries, keys and values are as wide in a kernel.
  Tensor AsWide(const Tensor& x, int64_t width, int64_t as) const {
    return Flat(width < as ? Pad(x, {0, 0, 0, 0}, {0, 0, 0, as - width}, 0, loc_) : x);
  }
  Tensor Mixed(const Tensor& q, const Tensor& k, const Tensor& v) const {
    if (!q.valid() || !k.valid() || !v.valid()) return Tensor();
    const GraphBuilder::Segment core(*q.builder(), "attention");
    const int64_t width = std::max(key_width(), o_.value_width);
    const double scale = o_.scale > 0 ? o_.scale : 1 / std::sqrt(static_cast<double>(key_width()));
    const Tensor mixed =
        Attention(AsWide(q, key_width(), width), AsWide(k, key_width(), width), AsWide(v, o_.value_width, width),
                  {.heads = o_.heads, .causal = true, .scale = scale}, loc_);
    return o_.value_width < width ? Flat(Slice(ByHead(mixed), 3, 0, o_.value_width, loc_)) : mixed;
  }

  const Tensor& x_;
  const LatentAttentionOptions& o_;
  const std::source_location loc_;
  const int64_t samples_, time_;
};

}  // namespace

Tensor LatentAttention(const Tensor& x, absl::string_view name, const LatentAttentionOptions& options,
                       std::source_location loc) {
  if (!x.valid()) return Tensor();
  const auto fail = [&](const std::string& what) {
    x.builder()->Fail(absl::InvalidArgumentError(absl::StrCat("latent attention '", name, "': ", what)));
    return Tensor();
  };
  if (x.shape().rank() != 3) {
    return fail(absl::StrCat("the input must be [batch, time, width] but is ", x.type().ToString()));
  }
  const std::pair<const char*, int64_t> kPositive[] = {{"heads", options.heads},
                                                       {"rank", options.rank},
                                                       {"plain_width", options.plain_width},
                                                       {"rotary_width", options.rotary_width},
                                                       {"value_width", options.value_width}};
  for (const auto& [field, value] : kPositive) {
    if (value < 1) return fail(absl::StrCat(field, " is ", value, " but must be positive"));
  }
  const GraphBuilder::Scope scope(*x.builder(), name);
  return Latent(x, options, loc).Out();
}

}  // namespace oneflow::nn
