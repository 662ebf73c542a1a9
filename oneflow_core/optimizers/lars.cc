// LARS (You et al. 2017) as timm has it: SGD whose gradients are scaled, tensor by tensor, to a share of the weight's
// norm, and the rate is outside the momentum. Where nothing decays (vectors, usually) it is SGD.
//
//   g = (g + decay w) trust |w| / (|g| + decay |w| + epsilon),  u = momentum u + g
//   w = w - rate u, or w - rate (g + momentum u) with Nesterov's momentum
#include "oneflow_core/functional.h"
#include "oneflow_core/optimizer_step.h"
#include "oneflow_core/optimizers/optimizers.h"

namespace oneflow {
namespace {

void Lars(OptimizerStep& s) {
  Tensor g = s.gradient();
  if (s.weight_decay() > 0) {
    const Tensor ratio = s.TrustRatio(s.SumOfSquares(s.weight()), s.SumOfSquares(g), s.Number("trust"),
                                      s.weight_decay(), s.Number("epsilon"));
    g = Mul(Add(g, Scale(s.weight(), s.weight_decay())), ratio);
  }
  const double momentum = s.Number("momentum");
  const Tensor u = Add(Scale(s.state("u"), momentum), g);
  s.SetState("u", u);
  s.SetWeight(Sub(s.weight(), Mul(s.Flag("nesterov") ? Add(g, Scale(u, momentum)) : u, s.rate())));
}

}  // namespace

OptimizerRule LarsRule() {
  return {
      .name = "lars",
      .states = {{"u", "lars_momentum"}},
      .attributes = {{"momentum", 0.9, 1}, {"nesterov", 0, 0, /*is_flag=*/true}, {"trust", 0.001}, {"epsilon", 1e-8}},
      .build = Lars};
}

}  // namespace oneflow
