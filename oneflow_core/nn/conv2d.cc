#include "oneflow_core/nn/conv2d.h"

#include "oneflow_core/functional.h"
#include "oneflow_core/nn/initial.h"

namespace oneflow::nn {

namespace {

bool IsGood(const Tensor& x, const char* kind, absl::string_view name, const Conv2dOptions& options) {
  if (!x.valid()) return false;
  const bool sizes = x.shape().rank() == 4 && options.channels > 0 && options.kernel > 0 && options.groups > 0;
  if (sizes && x.shape()[1] % options.groups == 0 && options.channels % options.groups == 0) return true;
  x.builder()->Fail(absl::InvalidArgumentError(
      absl::StrCat(kind, " '", name, "': from ", x.type().ToString(), " to ", options.channels, " channels in ",
                   options.groups, " groups with kernel ", options.kernel,
                   "; the input must be [n,c,h,w], the others positive, and the groups divide the channels")));
  return false;
}

ConvWindow WindowOf(const Conv2dOptions& options) {
  return {options.stride, options.padding, options.dilation, options.groups};
}

// [out,in,kernel,kernel]; an output is a sum over `fan` channels.
Tensor Weight(const Tensor& x, const Conv2dOptions& options, int64_t out, int64_t in, int64_t fan,
              std::source_location loc) {
  const int64_t inputs = fan * options.kernel * options.kernel;
  return x.builder()->Variable("weight", {x.type().dtype, {out, in, options.kernel, options.kernel}},
                               options.init.empty() ? HeUniform(inputs) : options.init, {}, true, loc);
}

Tensor WithBias(const Tensor& y, const Conv2dOptions& options, std::source_location loc) {
  if (!options.bias || !y.valid()) return y;
  const Tensor bias = y.builder()->Variable("bias", {DType::kFloat32, {options.channels}}, "zeros", {}, true, loc);
  return BiasAdd(y, bias, /*axis=*/1, loc);
}

}  // namespace

Tensor Conv2d(const Tensor& x, absl::string_view name, const Conv2dOptions& options, std::source_location loc) {
  if (!IsGood(x, "conv2d", name, options)) return Tensor();
  const GraphBuilder::Scope scope(*x.builder(), name);
  const int64_t in = x.shape()[1] / options.groups;
  const Tensor weight = Weight(x, options, options.channels, in, in, loc);
  return WithBias(oneflow::Conv2d(x, weight, WindowOf(options), loc), options, loc);
}

Tensor ConvTranspose2d(const Tensor& x, absl::string_view name, const Conv2dOptions& options, int64_t output_padding,
                       std::source_location loc) {
  if (!IsGood(x, "conv_transpose2d", name, options)) return Tensor();
  const GraphBuilder::Scope scope(*x.builder(), name);
  const int64_t in = x.shape()[1];
  const Tensor weight = Weight(x, options, in, options.channels / options.groups, in / options.groups, loc);
  return WithBias(oneflow::ConvTranspose2d(x, weight, WindowOf(options), output_padding, loc), options, loc);
}

}  // namespace oneflow::nn
