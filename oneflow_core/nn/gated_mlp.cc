#include "oneflow_core/nn/gated_mlp.h"

#include "oneflow_core/functional.h"
#include "oneflow_core/nn/linear.h"

namespace oneflow::nn {

Tensor GatedMlp(const Tensor& x, absl::string_view name, const GatedMlpOptions& options, std::source_location loc) {
  if (!x.valid()) return Tensor();
  const GraphBuilder::Scope scope(*x.builder(), name);
  LinearOptions columns = ColumnSplit(options.hidden, options.init);
  columns.bias = false;
  const Tensor gate = Linear(x, "gate", columns, loc), up = Linear(x, "up", columns, loc);
  const Tensor hidden = Mul(options.gelu ? GeluTanh(gate, loc) : Silu(gate, loc), up, loc);
  if (!hidden.valid()) return Tensor();
  LinearOptions down = RowSplit(x.shape()[x.shape().rank() - 1], options.output_init);
  down.bias = false;
  return Linear(hidden, "down", down, loc);
}

}  // namespace oneflow::nn
