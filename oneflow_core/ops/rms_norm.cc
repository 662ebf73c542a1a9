// rms_norm over the last dimension: y = x * rstd * gamma with rstd = 1 / sqrt(mean of x^2 + epsilon). As layer_norm
// without centering: neither a mean nor a shift.
#include "oneflow_core/grad_context.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"
#include "oneflow_core/ops/per_row.h"

namespace oneflow::ops {
namespace {

absl::StatusOr<Types> InferRmsNorm(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kFloat, AtLeast(1)}, {"gamma", kFloat32}}));
  const TensorType& x = c.inputs[0];
  OF_RETURN_IF_ERROR(CheckOnePerColumn(c, x, 1, {"gamma"}));
  OF_RETURN_IF_ERROR(CheckNotNegative(c.attrs, "epsilon"));
  return Outputs({x, OnePerRow(x)});
}

absl::Status RmsNormGrad(GradContext& c) {
  if (c.output_grad(1).has_value()) {
    return absl::UnimplementedError("no gradient flows through the rstd of an rms_norm");
  }
  const std::vector<Tensor> grads = c.Call("rms_norm_grad", {*c.output_grad(0), c.input(0), c.input(1), c.output(1)});
  for (int i = 0; i < 2; ++i) c.SetInputGrad(i, grads[i]);
  return absl::OkStatus();
}

absl::StatusOr<Types> InferRmsNormGrad(const InferContext& c) {
  OF_RETURN_IF_ERROR(
      CheckOperands(c, {{"dy", kFloat}, {"x", kFloat, AtLeast(1)}, {"gamma", kFloat32}, {"rstd", kFloat32}}));
  const TensorType& x = c.inputs[1];
  OF_RETURN_IF_ERROR(CheckSame("dy", c.inputs[0], "x", x));
  OF_RETURN_IF_ERROR(CheckOnePerColumn(c, x, 2, {"gamma"}));
  OF_RETURN_IF_ERROR(CheckOnePerRow(c, x, 3, {"rstd"}));
  return Outputs({x, c.inputs[2]});
}

}  // namespace

void AddRmsNormOps(OpRegistry& registry) {
  registry.Add({.name = "rms_norm",
                .rule = "...c,c->...c,...; whole c",
                .infer = InferRmsNorm,
                .grad = RmsNormGrad,
                .precision = Precision::kFollow,
                .full_inputs = {1}});
  registry.Add({.name = "rms_norm_grad",
                .rule = "...c,...c,c,...->...c,c; whole c; linear 0",
                .infer = InferRmsNormGrad,
                .precision = Precision::kFollow,
                .full_inputs = {2, 3}});
}

}  // namespace oneflow::ops
