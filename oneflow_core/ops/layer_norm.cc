// layer_norm over the last dimension: y = (x - mean) * rstd * gamma + beta with rstd = 1 / sqrt(variance + epsilon).
// The statistics are outputs so that the gradient need not compute them again. They, gamma and beta are f32, whatever x
// is.
#include "oneflow_core/grad_context.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"
#include "oneflow_core/ops/per_row.h"

namespace oneflow::ops {
namespace {

absl::StatusOr<Types> InferLayerNorm(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kFloat, AtLeast(1)}, {"gamma", kFloat32}, {"beta", kFloat32}}));
  const TensorType& x = c.inputs[0];
  OF_RETURN_IF_ERROR(CheckOnePerColumn(c, x, 1, {"gamma", "beta"}));
  OF_RETURN_IF_ERROR(CheckNotNegative(c.attrs, "epsilon"));
  return Outputs({x, OnePerRow(x), OnePerRow(x)});
}

absl::Status LayerNormGrad(GradContext& c) {
  if (c.output_grad(1).has_value() || c.output_grad(2).has_value()) {
    return absl::UnimplementedError("no gradient flows through the mean and rstd of a layer_norm");
  }
  const std::vector<Tensor> grads =
      c.Call("layer_norm_grad", {*c.output_grad(0), c.input(0), c.input(1), c.output(1), c.output(2)});
  for (int i = 0; i < 3; ++i) c.SetInputGrad(i, grads[i]);
  return absl::OkStatus();
}

absl::StatusOr<Types> InferLayerNormGrad(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(
      c, {{"dy", kFloat}, {"x", kFloat, AtLeast(1)}, {"gamma", kFloat32}, {"mean", kFloat32}, {"rstd", kFloat32}}));
  const TensorType& x = c.inputs[1];
  OF_RETURN_IF_ERROR(CheckSame("dy", c.inputs[0], "x", x));
  OF_RETURN_IF_ERROR(CheckOnePerColumn(c, x, 2, {"gamma"}));
  OF_RETURN_IF_ERROR(CheckOnePerRow(c, x, 3, {"mean", "rstd"}));
  return Outputs({x, c.inputs[2], c.inputs[2]});
}

}  // namespace

void AddLayerNormOps(OpRegistry& registry) {
  registry.Add({.name = "layer_norm",
                .rule = "...c,c,c->...c,...,...; whole c",
                .infer = InferLayerNorm,
                .grad = LayerNormGrad,
                .precision = Precision::kFollow,
                .full_inputs = {1, 2}});
  registry.Add({.name = "layer_norm_grad",
                .rule = "...c,...c,c,...,...->...c,c,c; whole c; linear 0",
                .infer = InferLayerNormGrad,
                .precision = Precision::kFollow,
                .full_inputs = {2, 3, 4}});
}

}  // namespace oneflow::ops
