// The optimistic gradient method (Popov 1980; OGDA of Daskalakis et al. 2018): a step by what the gradient will be if
// it goes on changing as it did.
//
//   w = w - rate (2 g - previous),  previous = g       g: with decay w
//
// The first step is one of plain descent.
#include "oneflow_core/functional.h"
#include "oneflow_core/optimizer_step.h"
#include "oneflow_core/optimizers/optimizers.h"

namespace oneflow {
namespace {

void Optimistic(OptimizerStep& s) {
  const Tensor g = s.DecayedGradient(s.weight());
  // t^-64: 1 in the first step, and nothing beside 1 afterwards.
  const Tensor first = s.Power(-64), later = AddScalar(Scale(first, -1), 1);
  const Tensor change = Mul(Sub(g, s.state("previous")), later);
  s.SetState("previous", g);
  s.SetWeight(Sub(s.weight(), Mul(Add(g, change), s.rate())));
}

}  // namespace

OptimizerRule OptimisticRule() {
  return {.name = "optimistic", .states = {{"previous", "previous_gradient"}}, .build = Optimistic};
}

}  // namespace oneflow
