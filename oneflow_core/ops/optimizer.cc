// What happens after the gradients: the clipping factor, the learning rate of the step, and the updates, which
// overwrite their variables by a rule of optimizer_rules.h. State and scalars are f32 whatever the model computes in.
//
// Where gradients are those of a loss times a scale (compiler/passes/loss_scale.h), `unscale` divides it out, and says
// that the step is skipped by a scale of NaN: then nothing is overwritten but the loss' scale itself.
#include <utility>

#include "glog/logging.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"
#include "oneflow_core/optimizer_rules.h"

namespace oneflow::ops {
namespace {

constexpr size_t kMostRules = 16;

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
  OF_RETURN_IF_ERROR(CheckNumber(c.attrs, "base"));
  OF_RETURN_IF_ERROR(IntAttrOr(c.attrs, "warmup", 0, 0).status());
  OF_RETURN_IF_ERROR(IntAttrOr(c.attrs, "total", 0, 0).status());
  OF_RETURN_IF_ERROR(CheckOptionalNumber(c.attrs, "min_ratio"));
  OF_ASSIGN_OR_RETURN(const std::string kind, StringAttr(c.attrs, "kind"));
  if (kind != "constant" && kind != "cosine" && kind != "linear") {
    return absl::InvalidArgumentError(
        absl::StrCat("attribute 'kind' is '", kind, "' but must be 'constant', 'cosine' or 'linear'"));
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

template <size_t rule>
absl::StatusOr<Types> InferUpdate(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckUpdate(c, OptimizerRules()[rule]));
  OF_RETURN_IF_ERROR(CheckRuleAttributes(c, OptimizerRules()[rule]));
  return Outputs({});
}
template <size_t rule>
double UpdateFlops(absl::Span<const TensorType> inputs, absl::Span<const TensorType>, const AttrMap&) {
  return OptimizerRules()[rule].flops * static_cast<double>(inputs[0].shape.count());
}

absl::StatusOr<Types> InferEmaUpdate(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"v", kFloat32}, {"x", kFloat32}}));
  OF_RETURN_IF_ERROR(CheckSame("v", c.inputs[0], "x", c.inputs[1]));
  OF_RETURN_IF_ERROR(CheckNumber(c.attrs, "decay", 1));
  return Outputs({});
}

// Op definitions have plain functions, which know their rule by its number.
template <size_t... rule>
void AddUpdates(OpRegistry& registry, std::index_sequence<rule...>) {
  constexpr decltype(OpDef::infer) kInfer[] = {InferUpdate<rule>...};
  constexpr decltype(OpDef::flops) kFlops[] = {UpdateFlops<rule>...};
  CHECK_LE(OptimizerRules().size(), sizeof...(rule));
  for (size_t i = 0; i < OptimizerRules().size(); ++i) {
    const OptimizerRule& row = OptimizerRules()[i];
    OpDef op{.name = row.name + "_update", .rule = "...,", .infer = kInfer[i], .flops = kFlops[i], .mutates = {0}};
    for (size_t state = 0; state < row.states.size(); ++state) {
      op.rule += "...,";
      op.mutates.push_back(static_cast<int>(state) + 1);
    }
    op.rule += row.reads_step ? "...,,,->" : "...,,->";  // g, lr, scale, step
    registry.Add(std::move(op));
  }
}

}  // namespace

void AddOptimizerOps(OpRegistry& registry) {
  registry.Add({.name = "clip_scale", .rule = "->,", .infer = InferClipScale});
  registry.Add({.name = "unscale", .rule = ",->,,", .infer = InferUnscale});
  registry.Add({.name = "loss_scale_update", .rule = ",,->", .infer = InferLossScaleUpdate, .mutates = {0, 1}});
  registry.Add({.name = "lr_schedule", .rule = "->", .infer = InferLrSchedule});
  registry.Add({.name = "ema_update", .rule = "...,...->", .infer = InferEmaUpdate, .mutates = {0}, .averages = {1}});
  AddUpdates(registry, std::make_index_sequence<kMostRules>());
}

}  // namespace oneflow::ops
