// y[i] = f(x[i]). Gradients are products of elementwise ops, in y where that is cheaper than in x (exp, tanh, ...), or
// ops of their own (ONEFLOW_GRADIENT_FUNCTIONS).
#include <functional>
#include <utility>

#include "oneflow_core/elementwise_functions.h"
#include "oneflow_core/grad_context.h"
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

// A gradient as it is written: a tensor that Make() makes with nodes of elementwise ops. Of two operands it makes the
// right one first.
class Formula {
 public:
  Formula(Tensor tensor) : make_([tensor](GradContext&) { return tensor; }) {}  // NOLINT: meant to be implicit
  explicit Formula(std::function<Tensor(GradContext&)> make) : make_(std::move(make)) {}
  static Formula Call(const char* op, Formula x, AttrMap attrs = {}) {
    return Formula([=](GradContext& c) { return c.Call1(op, {x.Make(c)}, attrs); });
  }
  static Formula Call(const char* op, Formula a, Formula b) {
    return Formula([=](GradContext& c) {
      const Tensor right = b.Make(c);
      return c.Call1(op, {a.Make(c), right});
    });
  }
  Tensor Make(GradContext& c) const { return make_(c); }

 private:
  std::function<Tensor(GradContext&)> make_;
};

Formula operator*(Formula a, Formula b) { return Formula::Call("mul", a, b); }
Formula operator/(Formula a, Formula b) { return Formula::Call("div", a, b); }
Formula operator*(double alpha, Formula x) { return Formula::Call("scale", x, {{"alpha", alpha}}); }
Formula operator-(double alpha, Formula x) {
  return Formula::Call("add_scalar", Formula::Call("neg", x), {{"alpha", alpha}});
}
// A product, which there is in narrow types too.
Formula Squared(Formula x) {
  return Formula([=](GradContext& c) {
    const Tensor made = x.Make(c);
    return c.Call1("mul", {made, made});
  });
}
Formula Square(Formula x) { return Formula::Call("square", x); }
Formula Abs(Formula x) { return Formula::Call("abs", x); }
Formula Sign(Formula x) { return Formula::Call("sign", x); }
Formula Exp(Formula x) { return Formula::Call("exp", x); }
Formula Sin(Formula x) { return Formula::Call("sin", x); }
Formula Cos(Formula x) { return Formula::Call("cos", x); }
Formula Sigmoid(Formula x) { return Formula::Call("sigmoid", x); }
#define OF_DEFINE_FORMULA(Name, op, ...) \
  Formula Name(Formula dy, Formula x) { return Formula::Call(#op, dy, x); }
ONEFLOW_GRADIENT_FUNCTIONS(OF_DEFINE_FORMULA)
#undef OF_DEFINE_FORMULA

#define OF_DEFINE_GRADIENT(Name, op, f, dx, ...)                              \
  absl::Status Name##Grad(GradContext& c) {                                   \
    const Formula dy([](GradContext& made) { return *made.output_grad(0); }); \
    [[maybe_unused]] const Formula x = c.input(0), y = c.output(0);           \
    c.SetInputGrad(0, Formula(dx).Make(c));                                   \
    return absl::OkStatus();                                                  \
  }
ONEFLOW_UNARY_FUNCTIONS(OF_DEFINE_GRADIENT)
#undef OF_DEFINE_GRADIENT

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
#define OF_ADD(Name, op, f, dx, precision, ...) add(#op, InferSame<kFloat>, Name##Grad, precision);
  ONEFLOW_UNARY_FUNCTIONS(OF_ADD)
#undef OF_ADD
#define OF_ADD(Name, op, ...) add_grad(#op);
  ONEFLOW_GRADIENT_FUNCTIONS(OF_ADD)
#undef OF_ADD
}

}  // namespace oneflow::ops
