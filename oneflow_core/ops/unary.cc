// y[i] = f(x[i]). Gradients are products of elementwise ops in y where that is cheaper than in x (exp, tanh, ...); relu
// and gelu, which every model is made of, have a gradient op of their own.
#include "oneflow_core/builder.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"

namespace oneflow::ops {
namespace {

using Gradient = absl::Status (*)(GradContext&);

absl::StatusOr<Types> InferWithAlpha(const InferContext& c) {
  OF_RETURN_IF_ERROR(NumberAttr(c.attrs, "alpha").status());
  return InferSame<kFloat>(c);
}

// A gradient op: d<y> and the forward tensor it is evaluated at.
absl::StatusOr<Types> InferUnaryGrad(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"dy", kFloat}, {"x", kFloat}}));
  OF_RETURN_IF_ERROR(CheckSame("dy", c.inputs[0], "x", c.inputs[1]));
  return Outputs({c.inputs[0]});
}

absl::Status ScaleGrad(GradContext& c) {
  c.SetInputGrad(0, c.Call1("scale", {*c.output_grad(0)}, {{"alpha", c.attrs().Double("alpha")}}));
  return absl::OkStatus();
}

absl::Status AddScalarGrad(GradContext& c) {
  c.SetInputGrad(0, *c.output_grad(0));
  return absl::OkStatus();
}

absl::Status NegGrad(GradContext& c) {
  c.SetInputGrad(0, c.Call1("neg", {*c.output_grad(0)}));
  return absl::OkStatus();
}

// dy * y
absl::Status ExpGrad(GradContext& c) {
  c.SetInputGrad(0, c.Call1("mul", {*c.output_grad(0), c.output(0)}));
  return absl::OkStatus();
}

// dy / x
absl::Status LogGrad(GradContext& c) {
  c.SetInputGrad(0, c.Call1("div", {*c.output_grad(0), c.input(0)}));
  return absl::OkStatus();
}

// dy / 2y
absl::Status SqrtGrad(GradContext& c) {
  const Tensor over_y = c.Call1("div", {*c.output_grad(0), c.output(0)});
  c.SetInputGrad(0, c.Call1("scale", {over_y}, {{"alpha", 0.5}}));
  return absl::OkStatus();
}

// -dy * y^3 / 2
absl::Status RsqrtGrad(GradContext& c) {
  const Tensor cube = c.Call1("mul", {c.Call1("square", {c.output(0)}), c.output(0)});
  c.SetInputGrad(0, c.Call1("scale", {c.Call1("mul", {*c.output_grad(0), cube})}, {{"alpha", -0.5}}));
  return absl::OkStatus();
}

// dy * 2x
absl::Status SquareGrad(GradContext& c) {
  const Tensor product = c.Call1("mul", {*c.output_grad(0), c.input(0)});
  c.SetInputGrad(0, c.Call1("scale", {product}, {{"alpha", 2.0}}));
  return absl::OkStatus();
}

// 1 - x
Tensor OneMinus(GradContext& c, Tensor x) { return c.Call1("add_scalar", {c.Call1("neg", {x})}, {{"alpha", 1.0}}); }

// dy * (1 - y^2); a product, which there is in narrow types too.
absl::Status TanhGrad(GradContext& c) {
  const Tensor slope = OneMinus(c, c.Call1("mul", {c.output(0), c.output(0)}));
  c.SetInputGrad(0, c.Call1("mul", {*c.output_grad(0), slope}));
  return absl::OkStatus();
}

// dy * y * (1 - y)
absl::Status SigmoidGrad(GradContext& c) {
  const Tensor slope = c.Call1("mul", {c.output(0), OneMinus(c, c.output(0))});
  c.SetInputGrad(0, c.Call1("mul", {*c.output_grad(0), slope}));
  return absl::OkStatus();
}

absl::Status ReluGrad(GradContext& c) {
  c.SetInputGrad(0, c.Call1("relu_grad", {*c.output_grad(0), c.output(0)}));
  return absl::OkStatus();
}

absl::Status GeluGrad(GradContext& c) {
  c.SetInputGrad(0, c.Call1("gelu_grad", {*c.output_grad(0), c.input(0)}));
  return absl::OkStatus();
}

}  // namespace

void AddUnaryOps(OpRegistry& registry) {
  constexpr Precision kFull = Precision::kFull, kFollow = Precision::kFollow;
  const auto add_linear = [&](const char* name, decltype(OpDef::infer) infer, Gradient grad) {
    registry.Add({.name = name,
                  .rule = "...->...; linear 0",
                  .infer = infer,
                  .grad = grad,
                  .in_place = {{0, 0}},
                  .is_elementwise = true,
                  .precision = kFollow,
                  .blocks = BlocksByElement});
  };
  const auto add = [&](const char* name, decltype(OpDef::infer) infer, Gradient grad, Precision precision) {
    registry.Add({.name = name,
                  .rule = "...->...",
                  .infer = infer,
                  .grad = grad,
                  .in_place = {{0, 0}},
                  .is_elementwise = true,
                  .precision = precision,
                  .blocks = BlocksByElement});
  };
  const auto add_grad = [&](const char* name) {
    registry.Add({.name = name,
                  .rule = "...,...->...; linear 0",
                  .infer = InferUnaryGrad,
                  .in_place = {{0, 0}},
                  .is_elementwise = true,
                  .precision = kFollow,
                  .blocks = BlocksByElement});
  };
  add_linear("scale", InferWithAlpha, ScaleGrad);
  add("add_scalar", InferWithAlpha, AddScalarGrad, kFollow);
  add_linear("neg", InferSame<kNumber>, NegGrad);
  add("exp", InferSame<kFloat>, ExpGrad, kFull);
  add("log", InferSame<kFloat>, LogGrad, kFull);
  add("sqrt", InferSame<kFloat>, SqrtGrad, kFull);
  add("rsqrt", InferSame<kFloat>, RsqrtGrad, kFull);
  add("square", InferSame<kFloat>, SquareGrad, kFull);
  add("tanh", InferSame<kFloat>, TanhGrad, kFollow);
  add("sigmoid", InferSame<kFloat>, SigmoidGrad, kFollow);
  add("relu", InferSame<kFloat>, ReluGrad, kFollow);
  add("gelu", InferSame<kFloat>, GeluGrad, kFollow);
  add_grad("relu_grad");
  add_grad("gelu_grad");
}

}  // namespace oneflow::ops
