// cumsum: y[.., i, ..] = sum of x[.., j, ..] over j <= i along `axis`; `exclusive`: j < i; `reverse`: from the other
// end. A sum that x[j] enters at all i >= j gives dx[j] the sum of dy at these i: the gradient is the same op reversed.
#include "oneflow_core/grad_context.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"

namespace oneflow::ops {
namespace {

absl::StatusOr<Types> InferCumsum(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kFloat, AtLeast(1)}}));
  OF_RETURN_IF_ERROR(IntAttr(c.attrs, "axis", 0, c.inputs[0].shape.rank() - 1).status());
  OF_RETURN_IF_ERROR(BoolAttrOr(c.attrs, "reverse", false).status());
  OF_RETURN_IF_ERROR(BoolAttrOr(c.attrs, "exclusive", false).status());
  return Outputs({c.inputs[0]});
}

absl::Status CumsumGrad(GradContext& c) {
  AttrMap attrs = c.attrs();
  attrs.Set("reverse", !attrs.Bool("reverse"));
  c.SetInputGrad(0, c.Call1("cumsum", {*c.output_grad(0)}, std::move(attrs)));
  return absl::OkStatus();
}

}  // namespace

void AddCumsumOps(OpRegistry& registry) {
  registry.Add({.name = "cumsum", .infer = InferCumsum, .grad = CumsumGrad, .in_place = {{0, 0}}});
}

}  // namespace oneflow::ops
