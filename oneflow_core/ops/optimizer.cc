// What happens after the gradients: the clipping factor, the learning rate of the step, and the updates, which
// overwrite their variables by a rule of optimizer_rules.h. State and scalars are f32 whatever the model computes in.
//
// Where gradients are those of a loss times a scale (compiler/passes/loss_scale.h), `unscale` divides it out, and says
// that the step is skipped by a scale of NaN: then nothing is overwritten but the loss' scale itself.
#include <optional>
#include <utility>

#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"
#include "oneflow_core/optimizer_rules.h"
#include "oneflow_core/rate_schedules.h"

namespace oneflow::ops {
namespace {

TensorType Scalar() { return {DType::kFloat32, {}}; }

// An attribute that must be >= 0 and, if `below` is given, < below.
absl::Status CheckNumber(const AttrMap& attrs, const std::string& name, double below = 0) {
  OF_ASSIGN_OR_RETURN(const double value, NumberAttr(attrs, name));
  if (value >= 0 && (below == 0 || value < below)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("attribute '", name, "' is ", value, " but must be ",
                                                 below == 0 ? "at least 0" : absl::StrCat("in [0, ", below, ")")));
}

absl::Status CheckOptionalNumber(const AttrMap& attrs, const std::string& name, double below = 0) {
  return attrs.Has(name) ? CheckNumber(attrs, name, below) : absl::OkStatus();
}

absl::StatusOr<Types> InferClipScale(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"s", kFloat32, Exactly(0)}}));
  OF_RETURN_IF_ERROR(CheckOptionalNumber(c.attrs, "max_norm"));
  return Outputs({Scalar(), Scalar()});
}

absl::StatusOr<Types> InferUnscale(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"s", kFloat32, Exactly(0)}, {"loss_scale", kFloat32, Exactly(0)}}));
  return Outputs({Scalar(), Scalar(), Scalar()});
}

absl::StatusOr<Types> InferLossScaleUpdate(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(
      c,
      {{"loss_scale", kFloat32, Exactly(0)}, {"good_steps", kCounter, Exactly(0)}, {"scale", kFloat32, Exactly(0)}}));
  OF_RETURN_IF_ERROR(CheckNumber(c.attrs, "growth"));
  OF_RETURN_IF_ERROR(CheckNumber(c.attrs, "backoff", 1));
  OF_RETURN_IF_ERROR(IntAttr(c.attrs, "interval", 1).status());
  return Outputs({});
}

absl::StatusOr<Types> InferLrSchedule(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"step", kCounter, Exactly(0)}}));
  OF_RETURN_IF_ERROR(CheckNumber(c.attrs, "learning_rate"));
  if (const std::optional<FieldComplaint> complaint = CheckRateSchedule(c.attrs)) {
    return absl::InvalidArgumentError(absl::StrCat("attribute '", complaint->field, "': ", complaint->what));
  }
  return Outputs({Scalar()});
}

// State and gradient lie like the weight.
absl::Status CheckLikeWeight(const InferContext& c, int i, absl::string_view name) {
  return CheckType(name, c.inputs[i], c.inputs[0], "w");
}

// w, its states, g, lr, scale and, for some rules, the step.
absl::Status CheckUpdate(const InferContext& c, const OptimizerRule& rule) {
  std::vector<Operand> operands = {{"w", kFloat32}};
  for (const OptimizerState& state : rule.states) operands.push_back({state.operand, kFloat32});
  operands.push_back({"g", kFloat32});
  operands.push_back({"lr", kFloat32, Exactly(0)});
  operands.push_back({"scale", kFloat32, Exactly(0)});
  if (rule.reads_step) operands.push_back({"step", kCounter, Exactly(0)});
  OF_RETURN_IF_ERROR(CheckOperands(c, operands));
  const int states = static_cast<int>(rule.states.size());
  for (int i = 0; i < states; ++i) OF_RETURN_IF_ERROR(CheckLikeWeight(c, 1 + i, rule.states[i].operand));
  return CheckLikeWeight(c, 1 + states, "g");
}

absl::Status CheckRuleAttributes(const InferContext& c, const OptimizerRule& rule) {
  for (const OptimizerAttribute& attribute : rule.attributes) {
    if (attribute.is_flag) {
      OF_RETURN_IF_ERROR(BoolAttrOr(c.attrs, attribute.name, false).status());
    } else {
      OF_RETURN_IF_ERROR(CheckOptionalNumber(c.attrs, attribute.name, attribute.below));
    }
  }
  return CheckOptionalNumber(c.attrs, "weight_decay");
}

absl::StatusOr<Types> InferEmaUpdate(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"v", kFloat32}, {"x", kFloat32}}));
  OF_RETURN_IF_ERROR(CheckSame("v", c.inputs[0], "x", c.inputs[1]));
  OF_RETURN_IF_ERROR(CheckNumber(c.attrs, "decay", 1));
  return Outputs({});
}

absl::StatusOr<Types> InferAverageUpdate(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(
      c, {{"v", kFloat32}, {"x", kFloat32}, {"step", kCounter, Exactly(0)}, {"scale", kFloat32, Exactly(0)}}));
  OF_RETURN_IF_ERROR(CheckSame("v", c.inputs[0], "x", c.inputs[1]));
  OF_RETURN_IF_ERROR(CheckNumber(c.attrs, "decay", 1));
  return Outputs({});
}

absl::StatusOr<Types> InferGuardedAssign(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"v", kFloat32}, {"x", kFloat32}, {"scale", kFloat32, Exactly(0)}}));
  OF_RETURN_IF_ERROR(CheckSame("v", c.inputs[0], "x", c.inputs[1]));
  return Outputs({});
}

absl::StatusOr<Types> InferTrustRatio(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"a", kFloat32, Exactly(0)}, {"b", kFloat32, Exactly(0)}}));
  for (const char* name : {"coefficient", "decay", "epsilon"}) {
    OF_RETURN_IF_ERROR(CheckOptionalNumber(c.attrs, name));
  }
  return Outputs({Scalar()});
}

absl::StatusOr<Types> InferBiasCorrection(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"step", kCounter, Exactly(0)}}));
  OF_RETURN_IF_ERROR(CheckNumber(c.attrs, "beta", 1));
  return Outputs({Scalar()});
}

absl::StatusOr<Types> InferStepPower(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"step", kCounter, Exactly(0)}}));
  OF_RETURN_IF_ERROR(NumberAttr(c.attrs, "exponent").status());
  return Outputs({Scalar()});
}

OpDef UpdateOp(const OptimizerRule& rule) {
  OpDef op{.name = rule.name + "_update", .rule = "...,", .mutates = {0}};
  op.infer = [&rule](const InferContext& c) -> absl::StatusOr<Types> {
    OF_RETURN_IF_ERROR(CheckUpdate(c, rule));
    OF_RETURN_IF_ERROR(CheckRuleAttributes(c, rule));
    return Outputs({});
  };
  op.flops = [&rule](absl::Span<const TensorType> inputs, absl::Span<const TensorType>, const AttrMap&) {
    return rule.flops * static_cast<double>(inputs[0].shape.count());
  };
  for (size_t state = 0; state < rule.states.size(); ++state) {
    op.rule += "...,";
    op.mutates.push_back(static_cast<int>(state) + 1);
  }
  op.rule += rule.reads_step ? "...,,,->" : "...,,->";  // g, lr, scale, step
  return op;
}

}  // namespace

void AddOptimizerOps(OpRegistry& registry) {
  registry.Add({.name = "clip_scale", .rule = "->,", .infer = InferClipScale});
  registry.Add({.name = "unscale", .rule = ",->,,", .infer = InferUnscale});
  registry.Add({.name = "loss_scale_update", .rule = ",,->", .infer = InferLossScaleUpdate, .mutates = {0, 1}});
  registry.Add({.name = "lr_schedule", .rule = "->", .infer = InferLrSchedule});
  registry.Add({.name = "ema_update", .rule = "...,...->", .infer = InferEmaUpdate, .mutates = {0}, .averages = {1}});
  registry.Add({.name = "average_update", .rule = "...,...,,->", .infer = InferAverageUpdate, .mutates = {0}});
  registry.Add({.name = "guarded_assign", .rule = "...,...,->", .infer = InferGuardedAssign, .mutates = {0}});
  registry.Add({.name = "trust_ratio", .rule = ",->", .infer = InferTrustRatio});
  registry.Add({.name = "bias_correction", .rule = "->", .infer = InferBiasCorrection});
  registry.Add({.name = "step_power", .rule = "->", .infer = InferStepPower});
  for (const OptimizerRule& rule : OptimizerRules()) {
    if (rule.build == nullptr) registry.Add(UpdateOp(rule));
  }
}

}  // namespace oneflow::ops
