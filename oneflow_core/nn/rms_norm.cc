#include "oneflow_core/nn/rms_norm.h"

#include "oneflow_core/functional.h"

namespace oneflow::nn {

Tensor RmsNorm(const Tensor& x, absl::string_view name, double epsilon, std::source_location loc) {
  if (!x.valid()) return Tensor();
  GraphBuilder& b = *x.builder();
  if (x.shape().rank() == 0) {
    b.Fail(absl::InvalidArgumentError(
        absl::StrCat("rms norm '", name, "': ", x.type().ToString(), " has no last dimension")));
    return Tensor();
  }
  const GraphBuilder::Scope scope(b, name);
  const TensorType type{DType::kFloat32, {x.shape()[x.shape().rank() - 1]}};
  const Tensor weight = b.Variable("weight", type, "ones", {}, true, loc);
  return oneflow::RmsNorm(x, weight, epsilon, loc);
}

}  // namespace oneflow::nn
