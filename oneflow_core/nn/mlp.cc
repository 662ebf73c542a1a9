#include "oneflow_core/nn/mlp.h"

#include "oneflow_core/functional.h"
#include "oneflow_core/nn/linear.h"

namespace oneflow::nn {

Tensor Mlp(const Tensor& x, absl::string_view name, const MlpOptions& options, std::source_location loc) {
  if (!x.valid()) return Tensor();
  const GraphBuilder::Scope scope(*x.builder(), name);
  const int last = x.shape().rank() - 1;
  const auto lying = [&](const Tensor& y) {
    return options.says_how_it_lies ? y.ToWithGradient({{"tp", Sbp::Split(last)}}, loc) : y;
  };
  const Tensor up = lying(Linear(x, "up", ColumnSplit(options.hidden, options.init), loc));
  const Tensor hidden = lying(options.gelu_tanh ? GeluTanh(up, loc) : Gelu(up, loc));
  if (!hidden.valid()) return Tensor();
  const int64_t width = x.shape()[last];
  LinearOptions down = RowSplit(width, options.output_init);
  if (options.says_how_it_lies) down.product = Sbp::Partial();
  return Linear(hidden, "down", down, loc);
}

}  // namespace oneflow::nn
