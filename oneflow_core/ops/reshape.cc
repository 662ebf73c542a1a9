// reshape: the same elements in the same row-major order under another shape.
#include "oneflow_core/grad_context.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"

namespace oneflow::ops {
namespace {

absl::StatusOr<Types> InferReshape(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x"}}));
  const TensorType& x = c.inputs[0];
  OF_ASSIGN_OR_RETURN_AT(const Shape shape, ShapeAttr(c.attrs, "shape"), absl::StrCat("x is ", x.ToString()));
  OF_ASSIGN_OR_RETURN(Types outputs, Outputs({{x.dtype, shape}}));
  if (shape.count() != x.shape.count()) {
    return absl::InvalidArgumentError(absl::StrCat("x is ", x.ToString(), " and has ", x.shape.count(),
                                                   " elements, shape ", shape.ToString(), " has ", shape.count()));
  }
  return outputs;
}

absl::Status ReshapeGrad(GradContext& c) {
  c.SetInputGrad(0, c.Call1("reshape", {*c.output_grad(0)}, {{"shape", c.input(0).shape().dims()}}));
  return absl::OkStatus();
}

double NoFlops(absl::Span<const TensorType>, absl::Span<const TensorType>, const AttrMap&) { return 0; }

}  // namespace

void AddReshapeOps(OpRegistry& registry) {
  registry.Add({.name = "reshape",
                .infer = InferReshape,
                .shard_attrs = ShapeOfShard,
                .grad = ReshapeGrad,
                .flops = NoFlops,
                .in_place = {{0, 0}},
                .precision = Precision::kFollow});
}

}  // namespace oneflow::ops
