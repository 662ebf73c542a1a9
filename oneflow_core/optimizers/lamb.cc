// LAMB (You et al. 2020) as timm has it: Adam's direction, and the rate of a tensor is multiplied by the ratio of the
// norms of the tensor and of its step. Where nothing decays (vectors, usually) the ratio is 1.
//
//   m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2
//   u = (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon) + decay w
//   w = w - rate |w| / |u| u
#include "oneflow_core/functional.h"
#include "oneflow_core/optimizer_step.h"
#include "oneflow_core/optimizers/optimizers.h"

namespace oneflow {
namespace {

void Lamb(OptimizerStep& s) {
  const double beta1 = s.Number("beta1"), beta2 = s.Number("beta2");
  const Tensor m = OptimizerStep::Average(beta1, s.state("m"), s.gradient());
  const Tensor v = OptimizerStep::Average(beta2, s.state("v"), Square(s.gradient()));
  const Tensor root = Sqrt(Div(v, s.BiasCorrection(beta2)));
  Tensor u = Div(Div(m, s.BiasCorrection(beta1)), AddScalar(root, s.Number("epsilon")));
  Tensor rate = s.rate();
  if (s.weight_decay() > 0) {
    u = Add(u, Scale(s.weight(), s.weight_decay()));
    rate = Mul(rate, s.TrustRatio(s.SumOfSquares(s.weight()), s.SumOfSquares(u)));
  }
  s.SetState("m", m);
  s.SetState("v", v);
  s.SetWeight(Sub(s.weight(), Mul(u, rate)));
}

}  // namespace

OptimizerRule LambRule() {
  return {.name = "lamb",
          .states = {{"m", "lamb_m"}, {"v", "lamb_v"}},
          .attributes = {{"beta1", 0.9, 1}, {"beta2", 0.999, 1}, {"epsilon", 1e-6}},
          .build = Lamb};
}

}  // namespace oneflow
