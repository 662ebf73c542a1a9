#include "oneflow_core/nn/mlp.h"

#include "oneflow_core/functional.h"
#include "oneflow_core/nn/linear.h"

namespace oneflow::nn {

Tensor Mlp(const Tensor& x, absl::string_view name, const MlpOptions& options, std::source_location loc) {
  if (!x.valid()) return Tensor();
  const GraphBuilder::Scope scope(*x.builder(), name);
  const Tensor hidden = Gelu(Linear(x, "up", ColumnSplit(options.hidden, options.init), loc), loc);
  if (!hidden.valid()) return Tensor();
  const int64_t width = x.shape()[x.shape().rank() - 1];
  return Linear(hidden, "down", RowSplit(width, options.output_init), loc);
}

}  // namespace oneflow::nn
