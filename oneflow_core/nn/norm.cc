#include "oneflow_core/nn/norm.h"

#include "oneflow_core/functional.h"

namespace oneflow::nn {
namespace {

// Whether x has a last dimension; otherwise the builder fails, and says so of norm `name` of `kind`.
bool HasLastDimension(const Tensor& x, const char* kind, absl::string_view name) {
  if (!x.valid()) return false;
  if (x.shape().rank() > 0) return true;
  x.builder()->Fail(
      absl::InvalidArgumentError(absl::StrCat(kind, " '", name, "': ", x.type().ToString(), " has no last dimension")));
  return false;
}

// A parameter for each element of x's last dimension.
Tensor Parameter(const Tensor& x, const char* name, const char* init, std::source_location loc) {
  return x.builder()->Variable(name, {DType::kFloat32, {x.shape()[x.shape().rank() - 1]}}, init, {}, true, loc);
}

}  // namespace

Tensor LayerNorm(const Tensor& x, absl::string_view name, double epsilon, std::source_location loc) {
  if (!HasLastDimension(x, "layer norm", name)) return Tensor();
  const GraphBuilder::Scope scope(*x.builder(), name);
  const Tensor weight = Parameter(x, "weight", "ones", loc), bias = Parameter(x, "bias", "zeros", loc);
  return oneflow::LayerNorm(x, weight, bias, epsilon, loc);
}

Tensor RmsNorm(const Tensor& x, absl::string_view name, double epsilon, std::source_location loc) {
  if (!HasLastDimension(x, "rms norm", name)) return Tensor();
  const GraphBuilder::Scope scope(*x.builder(), name);
  return oneflow::RmsNorm(x, Parameter(x, "weight", "ones", loc), epsilon, loc);
}

}  // namespace oneflow::nn
