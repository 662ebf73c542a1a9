// bias_add: y[.., i, ..] = x[.., i, ..] + b[i] with i on dimension `axis`; bias_grad: db[i] = sum of dy over all other
// dimensions. b and db are f32, whatever is computed in.
#include "oneflow_core/grad_context.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"

namespace oneflow::ops {
namespace {

// The dimension that `axis` names; absent and -1: the last.
absl::StatusOr<int> BiasAxis(const AttrMap& attrs, int rank) {
  OF_ASSIGN_OR_RETURN(const int64_t axis, IntAttrOr(attrs, "axis", -1, -1, rank - 1));
  return static_cast<int>(axis < 0 ? rank - 1 : axis);
}

absl::StatusOr<Types> InferBiasAdd(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kFloat, AtLeast(1)}, {"b", kFloat32, Exactly(1)}}));
  const TensorType &x = c.inputs[0], &b = c.inputs[1];
  OF_ASSIGN_OR_RETURN(const int axis, BiasAxis(c.attrs, x.shape.rank()));
  if (b.shape[0] != x.shape[axis]) {
    return absl::InvalidArgumentError(absl::StrCat("b is ", b.ToString(), " but dimension ", axis, " of x, which is ",
                                                   x.ToString(), ", has ", x.shape[axis]));
  }
  return Outputs({x});
}

// As an addition: P passes only in both, or b would be added once per rank.
std::string BiasAddRule(absl::Span<const TensorType> inputs, const AttrMap& attrs) {
  const int rank = inputs[0].shape.rank();
  std::string x = "...";
  for (int d = *BiasAxis(attrs, rank); d < rank; ++d) x.push_back(static_cast<char>('a' + x.size() - 3));
  return absl::StrCat(x, ",a->", x, "; linear 0 1");
}

std::string BiasGradRule(absl::Span<const TensorType> inputs, const AttrMap& attrs) {
  const int rank = inputs[0].shape.rank();
  std::string dy = "...";
  for (int d = *BiasAxis(attrs, rank); d < rank; ++d) dy.push_back(static_cast<char>('a' + dy.size() - 3));
  return absl::StrCat(dy, "->a; linear 0");
}

absl::Status BiasAddGrad(GradContext& c) {
  if (c.needs_grad(0)) c.SetInputGrad(0, *c.output_grad(0));
  if (c.needs_grad(1)) {
    c.SetInputGrad(1, c.Call1("bias_grad", {*c.output_grad(0)}, {{"axis", c.attrs().Int("axis", -1)}}));
  }
  return absl::OkStatus();
}

absl::StatusOr<Types> InferBiasGrad(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"dy", kFloat, AtLeast(1)}}));
  const TensorType& dy = c.inputs[0];
  OF_ASSIGN_OR_RETURN(const int axis, BiasAxis(c.attrs, dy.shape.rank()));
  return Outputs({{DType::kFloat32, {dy.shape[axis]}}});
}

std::vector<int> BlocksOfBias(absl::Span<const TensorType> inputs, absl::Span<const TensorType> outputs,
                              const AttrMap& attrs) {
  if (attrs.Int("axis", -1) == 1) return BlocksByChannel(inputs, outputs, attrs);
  return std::vector<int>(inputs.size() + outputs.size(), -1);
}

}  // namespace

void AddBiasOps(OpRegistry& registry) {
  registry.Add({.name = "bias_add",
                .rule_for = BiasAddRule,
                .infer = InferBiasAdd,
                .grad = BiasAddGrad,
                .in_place = {{0, 0}},
                .precision = Precision::kFollow,
                .full_inputs = {1},
                .blocks = BlocksOfBias});
  registry.Add({.name = "bias_grad",
                .rule_for = BiasGradRule,
                .infer = InferBiasGrad,
                .flops = FlopsOfInput,
                .precision = Precision::kFollow,
                .ragged = RaggedUse::kSums,
                .blocks = BlocksOfBias});
}

}  // namespace oneflow::ops
