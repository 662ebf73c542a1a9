#include "oneflow_core/nn/conv2d.h"

#include "oneflow_core/functional.h"
#include "oneflow_core/nn/initial.h"

namespace oneflow::nn {

Tensor Conv2d(const Tensor& x, absl::string_view name, const Conv2dOptions& options, std::source_location loc) {
  if (!x.valid()) return Tensor();
  GraphBuilder& b = *x.builder();
  if (x.shape().rank() != 4 || options.channels <= 0 || options.kernel <= 0) {
    b.Fail(absl::InvalidArgumentError(absl::StrCat("conv2d '", name, "': from ", x.type().ToString(), " to ",
                                                   options.channels, " channels with kernel ", options.kernel,
                                                   "; the input must be [n,c,h,w], the others positive")));
    return Tensor();
  }
  const GraphBuilder::Scope scope(b, name);
  const int64_t in = x.shape()[1];
  const TensorType weight_type{x.type().dtype, {options.channels, in, options.kernel, options.kernel}};
  const std::string init = options.init.empty() ? HeUniform(in * options.kernel * options.kernel) : options.init;
  const Tensor weight = b.Variable("weight", weight_type, init, {}, true, loc);
  const Tensor y = oneflow::Conv2d(x, weight, options.stride, options.padding, loc);
  if (!options.bias) return y;
  const Tensor bias = b.Variable("bias", {DType::kFloat32, {options.channels}}, "zeros", {}, true, loc);
  return BiasAdd(y, bias, /*axis=*/1, loc);
}

}  // namespace oneflow::nn
