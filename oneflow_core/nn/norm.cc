#include "oneflow_core/nn/norm.h"

#include "oneflow_core/composed.h"

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

// A parameter for each of so many elements.
Tensor Vector(const Tensor& x, int64_t size, const char* name, const char* init, std::source_location loc) {
  return x.builder()->Variable(name, {DType::kFloat32, {size}}, init, {}, true, loc);
}
// Of x's last dimension.
Tensor Parameter(const Tensor& x, const char* name, const char* init, std::source_location loc) {
  return Vector(x, x.shape()[x.shape().rank() - 1], name, init, loc);
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

Tensor OffsetRmsNorm(const Tensor& x, absl::string_view name, double epsilon, std::source_location loc) {
  if (!HasLastDimension(x, "rms norm", name)) return Tensor();
  const GraphBuilder::Scope scope(*x.builder(), name);
  return oneflow::RmsNorm(x, AddScalar(Parameter(x, "weight", "zeros", loc), 1, loc), epsilon, loc);
}

Tensor GroupNorm(const Tensor& x, absl::string_view name, int64_t groups, double epsilon, std::source_location loc) {
  if (!x.valid()) return Tensor();
  const GraphBuilder::Scope scope(*x.builder(), name);
  const int64_t channels = x.shape().rank() < 2 ? 0 : x.shape()[1];
  const Tensor weight = Vector(x, channels, "weight", "ones", loc), bias = Vector(x, channels, "bias", "zeros", loc);
  return oneflow::GroupNorm(x, weight, bias, groups, epsilon, loc);
}

Tensor InstanceNorm(const Tensor& x, absl::string_view name, double epsilon, std::source_location loc) {
  return GroupNorm(x, name, x.shape().rank() < 2 ? 0 : x.shape()[1], epsilon, loc);
}

}  // namespace oneflow::nn
