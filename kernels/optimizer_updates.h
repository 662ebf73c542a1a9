// The update formulas of the optimizer rules (oneflow_core/optimizer_rules.h), written once for vectors of floats
// (kernels/cpu), single floats (kernels/cuda) and doubles (the tests' reference). `Functions` provides Sign for the
// type of number. AdamW is in each device's optimizer.{cc,cu} instead, because it computes powers of the step once per
// tensor, and on GPUs updates many tensors at once.
//
// CUDA sources include this: OF_EVERYWHERE is __host__ __device__ there.
#pragma once

#include "oneflow_core/attr.h"

#ifdef __CUDACC__
#define OF_EVERYWHERE __host__ __device__
#else
#define OF_EVERYWHERE
#endif

namespace oneflow {

// OF_UPDATE_RULES(F) calls F(Rule, op) for each rule below.
#define OF_UPDATE_RULES(F) F(SgdRule, "sgd_update") F(LionRule, "lion_update")

struct SgdRule {
  static constexpr int kStates = 1;
  explicit SgdRule(const AttrMap& attrs)
      : momentum(static_cast<float>(attrs.Double("momentum"))),
        decay(static_cast<float>(attrs.Double("weight_decay"))),
        nesterov(attrs.Bool("nesterov")) {}

  // `g` is the gradient before it is multiplied by `scale`.
  template <typename Functions, typename V, typename Rate>
  OF_EVERYWHERE inline __attribute__((always_inline)) void Update(Rate lr, Rate scale, V& w, V (&u)[kStates],
                                                                  V g) const {
    const V gradient = g * scale + w * decay;
    u[0] = u[0] * momentum + gradient;
    w = w - lr * (nesterov ? gradient + u[0] * momentum : u[0]);
  }

  float momentum, decay;
  bool nesterov;
};

struct LionRule {
  static constexpr int kStates = 1;
  explicit LionRule(const AttrMap& attrs)
      : beta1(static_cast<float>(attrs.Double("beta1", 0.9))),
        beta2(static_cast<float>(attrs.Double("beta2", 0.99))),
        rest1(static_cast<float>(1 - attrs.Double("beta1", 0.9))),
        rest2(static_cast<float>(1 - attrs.Double("beta2", 0.99))),
        decay(static_cast<float>(attrs.Double("weight_decay"))) {}

  template <typename Functions, typename V, typename Rate>
  OF_EVERYWHERE inline __attribute__((always_inline)) void Update(Rate lr, Rate scale, V& w, V (&m)[kStates],
                                                                  V g) const {
    const V gradient = g * scale;
    w = w - lr * (Functions::Sign(m[0] * beta1 + gradient * rest1) + w * decay);
    m[0] = m[0] * beta2 + gradient * rest2;
  }

  float beta1, beta2, rest1, rest2, decay;
};

}  // namespace oneflow
