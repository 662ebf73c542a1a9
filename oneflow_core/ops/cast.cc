// cast: the same numbers in another dtype. Between floating types it is linear up to rounding, and its gradient is that
// of its output, in whichever of the two types it comes. To a narrower type it rounds sums, not their addends, unless
// `addends` says so.
#include "oneflow_core/grad_context.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"

namespace oneflow::ops {
namespace {

absl::StatusOr<Types> InferCast(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x"}}));
  OF_ASSIGN_OR_RETURN(const DType dtype, DTypeAttr(c.attrs, "dtype"));
  OF_RETURN_IF_ERROR(BoolAttrOr(c.attrs, "addends", false).status());
  return Outputs({{dtype, c.inputs[0].shape}});
}

// Rounding to an integer does not commute with adding: P passes between floating types only.
std::string CastRule(absl::Span<const TensorType> inputs, const AttrMap& attrs) {
  const absl::StatusOr<DType> to = DTypeAttr(attrs, "dtype");
  return to.ok() && IsFloating(*to) && IsFloating(inputs[0].dtype) ? "...->...; linear 0" : "...->...";
}

// Nothing flows back into integers: their input gradient stays unset. Otherwise the gradient goes on as it came, and
// whoever reads it casts it to what it needs.
absl::Status CastGrad(GradContext& c) {
  if (!IsFloating(c.input(0).type().dtype) || !IsFloating(c.output(0).type().dtype)) return absl::OkStatus();
  c.SetInputGrad(0, *c.arrived_grad(0));
  return absl::OkStatus();
}

}  // namespace

void AddCastOps(OpRegistry& registry) {
  registry.Add({.name = "cast",
                .kind = OpKind::kCast,
                .rule = "...->...; linear 0",
                .rule_for = CastRule,
                .infer = InferCast,
                .grad = CastGrad,
                .is_elementwise = true,
                .blocks = BlocksByElement});
}

}  // namespace oneflow::ops
