// The extragradient method (Korpelevich 1976): a step from the weight by the gradient half a step ahead, for games
// whose gradients turn around a solution. A step takes two gradients, of the same batch.
//
//   before a step   half = w - rate g(w)
//   step            w = w - rate g(half)       g(x): with decay x
#include "oneflow_core/functional.h"
#include "oneflow_core/optimizer_step.h"
#include "oneflow_core/optimizers/optimizers.h"

namespace oneflow {
namespace {

// By the gradient at x.
Tensor StepBy(const OptimizerStep& s, const Tensor& x) { return Sub(s.weight(), Mul(s.DecayedGradient(x), s.rate())); }

Tensor HalfAhead(const OptimizerStep& s) { return s.state("half"); }
void GoHalfAhead(OptimizerStep& s) { s.SetState("half", StepBy(s, s.weight())); }
void Extragradient(OptimizerStep& s) { s.SetWeight(StepBy(s, HalfAhead(s))); }

}  // namespace

OptimizerRule ExtragradientRule() {
  return {.name = "extragradient",
          .states = {{"half", "half"}},
          .build = Extragradient,
          .point = HalfAhead,
          .half = GoHalfAhead};
}

}  // namespace oneflow
