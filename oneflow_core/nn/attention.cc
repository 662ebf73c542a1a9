#include "oneflow_core/nn/attention.h"

#include "oneflow_core/functional.h"
#include "oneflow_core/nn/linear.h"

namespace oneflow::nn {

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
  const Tensor q = Linear(x, "q", projection, loc);
  const Tensor k = Linear(x, "k", projection, loc);
  const Tensor v = Linear(x, "v", projection, loc);
  Tensor mixed;
  {
    const GraphBuilder::Segment core(b, "attention");
    mixed = Attention(q, k, v, options.heads, /*causal=*/true, loc);
  }
  return Linear(mixed, "o", RowSplit(width, options.output_init), loc);
}

}  // namespace oneflow::nn
