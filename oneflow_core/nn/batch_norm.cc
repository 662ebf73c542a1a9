#include "oneflow_core/nn/batch_norm.h"

#include "oneflow_core/functional.h"

namespace oneflow::nn {
namespace {

absl::Status Check(const TensorType& x, const BatchNormOptions& options) {
  if (x.shape.rank() < 2) {
    return absl::InvalidArgumentError(absl::StrCat(x.ToString(), " has no dimension 1, which counts channels"));
  }
  if (!(options.momentum > 0 && options.momentum <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat("momentum is ", options.momentum, " but must be in (0, 1]"));
  }
  if (options.training && x.shape.count() < 2 * x.shape[1]) {
    return absl::InvalidArgumentError(
        absl::StrCat(x.ToString(), " has fewer than two elements per channel, whose variance is not defined"));
  }
  return absl::OkStatus();
}

}  // namespace

Tensor BatchNorm(const Tensor& x, absl::string_view name, const BatchNormOptions& options, std::source_location loc) {
  if (!x.valid()) return Tensor();
  GraphBuilder& b = *x.builder();
  if (const absl::Status status = Check(x.type(), options); !status.ok()) {
    b.Fail(Annotate(status, absl::StrCat("batch norm '", name, "'")));
    return Tensor();
  }
  const GraphBuilder::Scope scope(b, name);
  const int64_t channels = x.shape()[1];
  const double count = static_cast<double>(x.shape().count()) / static_cast<double>(channels);
  const TensorType type{DType::kFloat32, {channels}};
  const Tensor weight = options.scaled ? b.Variable("weight", type, "ones", {}, true, loc) : Constant(b, type, 1, loc);
  const Tensor bias = b.Variable("bias", type, "zeros", {}, true, loc);
  const Tensor running_mean = b.Statistic("running_mean", type, "zeros", loc);
  const Tensor running_var = b.Statistic("running_var", type, "ones", loc);
  if (!options.training) return oneflow::BatchNorm(x, weight, bias, running_mean, running_var, options.epsilon, loc);
  const BatchNormalized result = oneflow::BatchNorm(x, weight, bias, options.epsilon, loc);
  EmaUpdate(running_mean, result.mean, 1 - options.momentum, loc);
  EmaUpdate(running_var, Scale(result.var, count / (count - 1), loc), 1 - options.momentum, loc);
  return result.y;
}

}  // namespace oneflow::nn
