// c[i] = f(a[i], b[i]) with NumPy broadcasting, and add_n. A gradient is first an elementwise product and is then
// summed over the dimensions along which its operand was broadcast. heaviside is the slope of maximum in its first
// operand: 1 where a > b, 0 where a < b, and 1/2 where they are equal, so that equal operands share a gradient. Beside
// a NaN it is 1: the NaN is what comes out, and no operand hides it from the gradient.
#include "oneflow_core/elementwise_functions.h"
#include "oneflow_core/ops/broadcast.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"

namespace oneflow::ops {
namespace {

template <Elements elements>
absl::StatusOr<Types> InferBinary(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"a", elements}, {"b", elements}}));
  const TensorType &a = c.inputs[0], &b = c.inputs[1];
  OF_RETURN_IF_ERROR(CheckSameDType("a", a, "b", b));
  OF_ASSIGN_OR_RETURN(Shape shape, BroadcastShapes(a.shape, b.shape));
  return Outputs({{a.dtype, std::move(shape)}});
}

absl::Status AddGrad(GradContext& c) {
  for (int i = 0; i < 2; ++i) {
    if (c.needs_grad(i)) c.SetInputGrad(i, SumTo(c, *c.output_grad(0), c.input(i).shape()));
  }
  return absl::OkStatus();
}

absl::Status SubGrad(GradContext& c) {
  if (c.needs_grad(0)) c.SetInputGrad(0, SumTo(c, *c.output_grad(0), c.input(0).shape()));
  if (c.needs_grad(1)) c.SetInputGrad(1, c.Call1("neg", {SumTo(c, *c.output_grad(0), c.input(1).shape())}));
  return absl::OkStatus();
}

absl::Status MulGrad(GradContext& c) {
  for (int i = 0; i < 2; ++i) {
    if (!c.needs_grad(i)) continue;
    c.SetInputGrad(i, SumTo(c, c.Call1("mul", {*c.output_grad(0), c.input(1 - i)}), c.input(i).shape()));
  }
  return absl::OkStatus();
}

// c = a / b: da = dc / b, db = -dc * c / b.
absl::Status DivGrad(GradContext& c) {
  const Tensor over_b = c.Call1("div", {*c.output_grad(0), c.input(1)});
  if (c.needs_grad(0)) c.SetInputGrad(0, SumTo(c, over_b, c.input(0).shape()));
  if (c.needs_grad(1)) {
    const Tensor product = c.Call1("mul", {over_b, c.output(0)});
    c.SetInputGrad(1, c.Call1("neg", {SumTo(c, product, c.input(1).shape())}));
  }
  return absl::OkStatus();
}

// The operand that is chosen gets dc: the larger one of a maximum, the other one of a minimum.
absl::Status ExtremumGrad(GradContext& c, bool is_maximum) {
  for (int i = 0; i < 2; ++i) {
    if (!c.needs_grad(i)) continue;
    const Tensor mine = c.input(i), other = c.input(1 - i);
    const Tensor share = c.Call1("heaviside", is_maximum ? std::vector<Tensor>{mine, other} : std::vector{other, mine});
    c.SetInputGrad(i, SumTo(c, c.Call1("mul", {*c.output_grad(0), share}), c.input(i).shape()));
  }
  return absl::OkStatus();
}
absl::Status MaximumGrad(GradContext& c) { return ExtremumGrad(c, true); }
absl::Status MinimumGrad(GradContext& c) { return ExtremumGrad(c, false); }
constexpr decltype(OpDef::grad) HeavisideGrad = nullptr;  // a gradient itself

absl::StatusOr<Types> InferAddN(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckEveryOperand(c, {"x", kNumber}));
  for (size_t i = 1; i < c.inputs.size(); ++i) {
    OF_RETURN_IF_ERROR(CheckSame("input 0", c.inputs[0], absl::StrCat("input ", i), c.inputs[i]));
  }
  OF_ASSIGN_OR_RETURN(const DType out, OutDType(c.attrs, c.inputs[0].dtype));
  return Outputs({{out, c.inputs[0].shape}});
}

std::string AddNRule(absl::Span<const TensorType> inputs, const AttrMap&) {
  std::string operands, linear = "; linear";
  for (size_t i = 0; i < inputs.size(); ++i) {
    absl::StrAppend(&operands, i == 0 ? "..." : ",...");
    absl::StrAppend(&linear, " ", i);
  }
  return absl::StrCat(operands, "->...", linear);
}

absl::Status AddNGrad(GradContext& c) {
  for (size_t i = 0; i < c.input_grads().size(); ++i) c.SetInputGrad(static_cast<int>(i), *c.output_grad(0));
  return absl::OkStatus();
}

double AddNFlops(absl::Span<const TensorType> inputs, absl::Span<const TensorType> outputs, const AttrMap&) {
  return static_cast<double>(inputs.size() - 1) * static_cast<double>(outputs[0].shape.count());
}

}  // namespace

void AddBinaryOps(OpRegistry& registry) {
#define OF_ADD(Name, op, f, linear, elements)    \
  registry.Add({.name = #op,                     \
                .rule = "...,...->..." linear,   \
                .infer = InferBinary<elements>,  \
                .grad = Name##Grad,              \
                .in_place = {{0, 0}, {1, 0}},    \
                .is_elementwise = true,          \
                .precision = Precision::kFollow, \
                .blocks = BlocksByElement});
  ONEFLOW_BINARY_FUNCTIONS(OF_ADD)
#undef OF_ADD
  registry.Add({.name = "add_n",
                .rule_for = AddNRule,
                .infer = InferAddN,
                .grad = AddNGrad,
                .flops = AddNFlops,
                .in_place = {{0, 0}},
                .is_sum = true,
                .is_elementwise = true,
                .precision = Precision::kFollow,
                .has_out_dtype = true,
                .blocks = BlocksByElement});
}

}  // namespace oneflow::ops
