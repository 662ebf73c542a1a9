// What one unit of a recurrence computes in a step, for all devices: F is a float or a vector of them, Math has
// Sigmoid and Tanh of it. oneflow_core/ops/recurrence.cc has the formulas.
#pragma once

#include "kernels/host_device.h"
#include "kernels/kernel.h"

namespace oneflow {

// Samples, steps and units of x[b,t,gates*h].
struct RecurrenceSizes {
  RecurrenceSizes(const TensorArg& x, int64_t gates) : b(x.dims[0]), t(x.dims[1]), h(x.dims[2] / gates) {}
  int64_t b, t, h;
  // Where a step of the first sample begins in [b,t,n*h].
  OF_HOST_DEVICE int64_t At(int64_t step, int64_t n) const { return step * n * h; }
};

template <typename Math, typename F>
struct LstmUnit {
  // From what arrives at the gates.
  OF_HOST_DEVICE void Step(F to_i, F to_f, F to_g, F to_o, F before) {
    i = Math::Sigmoid(to_i);
    f = Math::Sigmoid(to_f);
    g = Math::Tanh(to_g);
    o = Math::Sigmoid(to_o);
    cell = f * before + i * g;
    y = o * Math::Tanh(cell);
  }
  // From the gradients of y and of the cell, whose values are i, f, g, o and cell, to those of what arrived at the
  // gates, in their places, and of the cell before, in its place.
  OF_HOST_DEVICE void Gradient(F dy, F dcell, F before) {
    const F squashed = Math::Tanh(cell), of_cell = dcell + dy * o * (1.0f - squashed * squashed);
    cell = of_cell * f;
    o = dy * squashed * o * (1.0f - o);
    f = of_cell * before * f * (1.0f - f);
    const F of_i = of_cell * g * i * (1.0f - i);
    g = of_cell * i * (1.0f - g * g);
    i = of_i;
  }
  F i, f, g, o, cell, y;
};

template <typename Math, typename F>
struct GruUnit {
  // From what arrives at the gates from x, and what the state gives n.
  OF_HOST_DEVICE void Step(F to_r, F to_z, F x_n, F state_n, F before) {
    r = Math::Sigmoid(to_r);
    z = Math::Sigmoid(to_z);
    of_state = state_n;
    n = Math::Tanh(x_n + r * state_n);
    y = n + z * (before - n);
  }
  // From the gradient of y to those of what arrived at r, z and n, in their places, of what the state gave n, and of
  // the state before, less what flows through the gates, in that of y.
  OF_HOST_DEVICE void Gradient(F dy, F before) {
    y = dy * z;
    const F of_n = dy * (1.0f - z) * (1.0f - n * n);
    z = dy * (before - n) * z * (1.0f - z);
    const F of_r = of_n * of_state * r * (1.0f - r);
    of_state = of_n * r;
    r = of_r;
    n = of_n;
  }
  F r, z, n, of_state, y;
};

}  // namespace oneflow
