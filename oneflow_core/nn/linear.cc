#include "oneflow_core/nn/linear.h"

#include "oneflow_core/functional.h"

namespace oneflow::nn {

LinearOptions ColumnSplit(int64_t width, std::string init) {
  return {.width = width,
          .init = std::move(init),
          .weight_hint = {{"tp", Sbp::Split(1)}},
          .bias_hint = {{"tp", Sbp::Split(0)}}};
}

LinearOptions RowSplit(int64_t width, std::string init) {
  return {.width = width,
          .init = std::move(init),
          .weight_hint = {{"tp", Sbp::Split(0)}},
          .bias_hint = {{"tp", Sbp::Broadcast()}}};
}

Tensor Linear(const Tensor& x, absl::string_view name, const LinearOptions& options, std::source_location loc) {
  if (!x.valid()) return Tensor();
  GraphBuilder& b = *x.builder();
  if (x.shape().rank() == 0 || options.width <= 0) {
    b.Fail(absl::InvalidArgumentError(absl::StrCat("linear '", name, "': from ", x.type().ToString(), " to width ",
                                                   options.width, "; both must have a last dimension")));
    return Tensor();
  }
  const GraphBuilder::Scope scope(b, name);
  const TensorType weight_type{x.type().dtype, {x.shape()[x.shape().rank() - 1], options.width}};
  const Tensor weight = b.Variable("weight", weight_type, options.init, options.weight_hint, true, loc);
  Tensor y = MatMul(x, weight, false, loc);
  if (options.product.has_value()) y = y.ToWithGradient({{"tp", *options.product}}, loc);
  if (!options.bias) return y;
  const TensorType bias_type{DType::kFloat32, {options.width}};
  return BiasAdd(y, b.Variable("bias", bias_type, "zeros", options.bias_hint, true, loc), -1, loc);
}

}  // namespace oneflow::nn
