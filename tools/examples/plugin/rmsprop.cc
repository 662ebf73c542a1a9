// RMSprop (Hinton's lecture 6e): v = beta v + (1 - beta) g^2, w = w (1 - rate decay) - rate g / (sqrt(v) + epsilon).
// It is made of ops, so that split weights and split state need nothing more.
#include "oneflow_core/functional.h"
#include "oneflow_core/optimizer_step.h"
#include "plugin.h"

namespace waves {
namespace {

void RmsProp(oneflow::OptimizerStep& s) {
  const oneflow::Tensor& g = s.gradient();
  const oneflow::Tensor v = s.Average(s.Number("beta"), s.state("v"), Mul(g, g));
  s.SetState("v", v);
  s.SetWeight(Sub(s.Decayed(), Mul(g / (Sqrt(v) + s.Number("epsilon")), s.rate())));
}

}  // namespace

void AddRmsProp(oneflow::Plugin& plugin) {
  plugin.Add(oneflow::OptimizerRule{.name = "rmsprop",
                                    .states = {{"v", "rmsprop_v"}},
                                    .attributes = {{"beta", 0.99, 1}, {"epsilon", 1e-8}},
                                    .build = RmsProp});
}

}  // namespace waves
