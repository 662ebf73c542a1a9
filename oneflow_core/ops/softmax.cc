// softmax: y = exp(x) / sum of exp(x) over the last dimension; dx = y * (dy - sum of dy * y).
#include "oneflow_core/grad_context.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"

namespace oneflow::ops {
namespace {

absl::StatusOr<Types> InferSoftmax(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kFloat, AtLeast(1)}}));
  return Outputs({c.inputs[0]});
}

absl::Status SoftmaxGrad(GradContext& c) {
  c.SetInputGrad(0, c.Call1("softmax_grad", {*c.output_grad(0), c.output(0)}));
  return absl::OkStatus();
}

absl::StatusOr<Types> InferSoftmaxGrad(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"dy", kFloat, AtLeast(1)}, {"y", kFloat, AtLeast(1)}}));
  OF_RETURN_IF_ERROR(CheckSame("dy", c.inputs[0], "y", c.inputs[1]));
  return Outputs({c.inputs[0]});
}

}  // namespace

void AddSoftmaxOps(OpRegistry& registry) {
  registry.Add({.name = "softmax", .rule = "...c->...c; whole c", .infer = InferSoftmax, .grad = SoftmaxGrad});
  registry.Add({.name = "softmax_grad", .rule = "...c,...c->...c; whole c; linear 0", .infer = InferSoftmaxGrad});
}

}  // namespace oneflow::ops
