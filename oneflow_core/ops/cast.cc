// cast: the same numbers in another dtype. Between floating types it is linear up to rounding, and its gradient is the
// cast back.
#include "oneflow_core/builder.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"

namespace oneflow::ops {
namespace {

absl::StatusOr<Types> InferCast(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x"}}));
  OF_ASSIGN_OR_RETURN(const DType dtype, DTypeAttr(c.attrs, "dtype"));
  return Outputs({{dtype, c.inputs[0].shape}});
}

// Nothing flows back into integers: their input gradient stays unset.
absl::Status CastGrad(GradContext& c) {
  const DType dtype = c.input(0).type().dtype;
  if (!IsFloating(dtype) || !IsFloating(c.output(0).type().dtype)) return absl::OkStatus();
  c.SetInputGrad(0, c.Call1("cast", {*c.output_grad(0)}, {{"dtype", std::string(Name(dtype))}}));
  return absl::OkStatus();
}

}  // namespace

void AddCastOps(OpRegistry& registry) {
  registry.Add({.name = "cast", .rule = "...->...; linear 0", .infer = InferCast, .grad = CastGrad});
}

}  // namespace oneflow::ops
