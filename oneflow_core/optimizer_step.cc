#include "oneflow_core/optimizer_step.h"

#include "oneflow_core/functional.h"

namespace oneflow {

OptimizerStep::OptimizerStep(GraphBuilder& builder, const Operands& operands, const AttrMap& attrs,
                             const StepNumber& step_number)
    : builder_(builder),
      operands_(operands),
      attrs_(attrs),
      step_number_(step_number),
      gradient_(operands.gradient.valid() ? Mul(operands.gradient, operands.scale) : Tensor()) {}

Tensor OptimizerStep::SumOfSquares(const Tensor& x) const { return builder_.Op1("square_sum", {x}); }

Tensor OptimizerStep::RootMeanSquare(const Tensor& x) const {
  const double count = static_cast<double>(x.shape().count());
  return Sqrt(Scale(SumOfSquares(x), count > 0 ? 1 / count : 1));
}

Tensor OptimizerStep::TrustRatio(const Tensor& squares_a, const Tensor& squares_b, double coefficient, double decay,
                                 double epsilon) const {
  return builder_.Op1("trust_ratio", {squares_a, squares_b},
                      {{"coefficient", coefficient}, {"decay", decay}, {"epsilon", epsilon}});
}

Tensor OptimizerStep::Average(double beta, const Tensor& x, const Tensor& y) {
  return Add(Scale(x, beta), Scale(y, 1 - beta));
}

Tensor OptimizerStep::Decayed() const {
  if (weight_decay() == 0) return weight();
  return Mul(weight(), AddScalar(Scale(rate(), -weight_decay()), 1));
}

Tensor OptimizerStep::DecayedGradient(const Tensor& x) const {
  return weight_decay() == 0 ? gradient() : Add(gradient(), Scale(x, weight_decay()));
}

void OptimizerStep::Set(const Tensor& v, const Tensor& x, const std::string& name) {
  builder_.Op("guarded_assign", {v, x, operands_.scale}, {}, std::source_location::current(), name);
}

}  // namespace oneflow
