// dropout: y[i] = keep(i) ? x[i] / (1 - rate) : 0. Which elements are kept is a function of (seed, key, step, logical
// index), so the gradient draws the same mask again instead of storing it: it is dropout of dy with the forward node's
// key. uniform_like and normal_like: a number of its own for each element of x, whose values are not read.
#include "oneflow_core/grad_context.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"

namespace oneflow::ops {
namespace {

absl::StatusOr<Types> InferDropout(const InferContext& c) {
  OF_ASSIGN_OR_RETURN(const double rate, NumberAttr(c.attrs, "rate"));
  if (!(rate >= 0 && rate < 1)) {
    return absl::InvalidArgumentError(absl::StrCat("attribute 'rate' is ", rate, " but must be in [0, 1)"));
  }
  OF_RETURN_IF_ERROR(CheckKeyAttr(c.attrs));
  return InferSame<kFloat>(c);
}

absl::Status DropoutGrad(GradContext& c) {
  AttrMap attrs = c.attrs();
  // The string the forward node draws by, which is its name if `key` is none.
  attrs.Set("key", attrs.String("key", c.name()));
  c.SetInputGrad(0, c.Call1("dropout", {*c.output_grad(0)}, std::move(attrs)));
  return absl::OkStatus();
}

absl::StatusOr<Types> InferLike(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckKeyAttr(c.attrs));
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kFloat32}}));
  return Outputs({c.inputs[0]});
}

}  // namespace

void AddDropoutOps(OpRegistry& registry) {
  registry.Add({.name = "dropout",
                .rule = "...->...; linear 0",
                .infer = InferDropout,
                .grad = DropoutGrad,
                .random = true,
                .in_place = {{0, 0}},
                .precision = Precision::kFollow});
  for (const char* name : {"uniform_like", "normal_like"}) {
    registry.Add({.name = name, .rule = "...->...", .infer = InferLike, .random = true, .in_place = {{0, 0}}});
  }
}

}  // namespace oneflow::ops
