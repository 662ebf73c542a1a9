// Ops that move tensors without computing: annotations, boxing, the sum over micro-batches, and what leaves the graph
// or is written into a variable.
#include "oneflow_core/grad_context.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"
#include "oneflow_core/ragged.h"

namespace oneflow::ops {
namespace {

// `to` is the identity. Where the gradient lies is the compiler's choice, so that it needs no node of its own, unless
// the attribute `gradient` says that it is to lie likewise; that of addends is whole.
absl::Status ToGrad(GradContext& c) {
  Tensor grad = *c.output_grad(0);
  if (c.attrs().Bool("gradient")) {
    SbpHint hint = c.output(0).builder()->graph().value(c.output(0).id()).hint;
    for (AxisSbp& on : hint) on.sbp = on.sbp.is_partial() ? Sbp::Broadcast() : on.sbp;
    grad = c.Lying(grad, std::move(hint));
  }
  c.SetInputGrad(0, grad);
  return absl::OkStatus();
}

// Of a ragged value it moves the filled rows only, so it has their counts as they lie where the rows come from and,
// where ranks send, as they lie where the rows go.
absl::StatusOr<Types> InferBoxing(const InferContext& c) {
  if (!AnyRagged(c.inputs)) return InferSame<kAny>(c);
  OF_RETURN_IF_ERROR(c.inputs.size() == 3 ? CheckOperands(c, {{"x"}, {"counts", kIndex}, {"counts there", kIndex}})
                                          : CheckOperands(c, {{"x"}, {"counts", kIndex}}));
  for (size_t i = 1; i < c.inputs.size(); ++i) {
    OF_RETURN_IF_ERROR(CheckType("counts", c.inputs[i], CountsType(c.inputs[0]), c.inputs[0].ToString()));
  }
  return Outputs({c.inputs[0]});
}

absl::StatusOr<Types> InferStepMean(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"total", kFloat32, Exactly(0)}, {"weight", kFloat32, Exactly(0)}}));
  return Outputs({c.inputs[0]});
}

// y = total / weight: dtotal = dy / weight, dweight = -dy * y / weight, both 0 where the weight is.
absl::Status StepMeanGrad(GradContext& c) {
  const Tensor dy = *c.output_grad(0), weight = c.input(1);
  if (c.needs_grad(0)) c.SetInputGrad(0, c.Call1("step_mean", {dy, weight}));
  if (!c.needs_grad(1)) return absl::OkStatus();
  c.SetInputGrad(1, c.Call1("neg", {c.Call1("step_mean", {c.Call1("mul", {dy, c.output(0)}), weight})}));
  return absl::OkStatus();
}

absl::StatusOr<Types> InferFetch(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x"}}));
  OF_ASSIGN_OR_RETURN(const std::string name, StringAttr(c.attrs, "name"));
  if (name.empty()) return absl::InvalidArgumentError("attribute 'name' is empty");
  if (c.attrs.Bool("weighted")) {
    OF_RETURN_IF_ERROR(CheckType("x", c.inputs[0], {DType::kFloat32, {2}}, "a value with its weight"));
  }
  return Outputs({});
}

absl::StatusOr<Types> InferTierCopy(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckTier(c.attrs));
  return InferSame<kAny>(c);
}

// The output has no elements: it is there when the copy is.
absl::StatusOr<Types> InferStoreInTier(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckTier(c.attrs));
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"v"}, {"x"}}));
  OF_RETURN_IF_ERROR(CheckSame("v", c.inputs[0], "x", c.inputs[1]));
  return Outputs({{DType::kBool, {0}}});
}

absl::StatusOr<Types> InferAssign(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"v"}, {"x"}}));
  OF_RETURN_IF_ERROR(CheckSame("v", c.inputs[0], "x", c.inputs[1]));
  return Outputs({});
}

// Counts, but for steps that are skipped, if it is told of them by the scale of their gradients.
absl::StatusOr<Types> InferIncrement(const InferContext& c) {
  if (c.inputs.size() == 2) {
    OF_RETURN_IF_ERROR(CheckOperands(c, {{"v", kCounter}, {"scale", kFloat32, Exactly(0)}}));
  } else {
    OF_RETURN_IF_ERROR(CheckOperands(c, {{"v", kCounter}}));
  }
  return Outputs({});
}

std::string IncrementRule(absl::Span<const TensorType> inputs, const AttrMap&) {
  return inputs.size() == 2 ? "...,->" : "...->";
}

}  // namespace

void AddPlumbingOps(OpRegistry& registry) {
  registry.Add({.name = "to",
                .kind = OpKind::kAnnotation,
                .rule = "...->...; linear 0",
                .infer = InferSame<kAny>,
                .grad = ToGrad,
                .precision = Precision::kFollow});
  registry.Add({.name = "stop_gradient",  // an annotation without a gradient ends it
                .kind = OpKind::kAnnotation,
                .rule = "...->...; linear 0",
                .infer = InferSame<kAny>,
                .precision = Precision::kFollow});
  registry.Add({.name = "boxing", .kind = OpKind::kBoxing, .infer = InferBoxing, .ragged = RaggedUse::kOwn});
  registry.Add({.name = "accumulate",
                .kind = OpKind::kAccumulate,
                .rule = "...->...; linear 0",
                .infer = InferSame<kNumber>,
                .ragged = RaggedUse::kSums,  // every micro-batch has counts of its own
                .blocks = BlocksByElement});
  registry.Add({.name = "step_mean",
                .rule = ",->; linear 0",
                .infer = InferStepMean,
                .grad = StepMeanGrad,
                .is_step_mean = true});
  registry.Add({.name = "fetch",
                .kind = OpKind::kFetch,
                .infer = InferFetch,
                .averages = {0},
                .has_effect = true,
                .ragged = RaggedUse::kPads});
  registry.Add({.name = "from_tier", .kind = OpKind::kLoad, .infer = InferTierCopy});
  registry.Add({.name = "to_tier", .kind = OpKind::kStore, .infer = InferTierCopy});
  registry.Add({.name = "store_in_tier", .kind = OpKind::kStore, .infer = InferStoreInTier, .mutates = {0}});
  registry.Add({.name = "assign", .rule = "...,...->", .infer = InferAssign, .mutates = {0}});
  registry.Add({.name = "increment", .rule_for = IncrementRule, .infer = InferIncrement, .mutates = {0}});
}

}  // namespace oneflow::ops
