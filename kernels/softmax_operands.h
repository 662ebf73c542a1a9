// Operands of the parts of a softmax that are elementwise over rows, as kernels of all devices read them.
#pragma once

#include "kernels/kernel.h"

namespace oneflow {

// softmax_loss: loss = log s - z, lse = m + log s.
template <typename T>
struct SoftmaxLossOperands {
  explicit SoftmaxLossOperands(const KernelArgs& args)
      : rows(args.in[0].count),
        m(args.in[0].as<const T>()),
        s(args.in[1].as<const float>()),
        z(args.in[2].as<const float>()),
        loss(args.out[0].as<float>()),
        lse(args.out[1].as<float>()) {}

  int64_t rows;
  const T* m;
  const float *s, *z;
  float *loss, *lse;
};

// same_index: y = 1 where a == b.
struct SameIndexOperands {
  explicit SameIndexOperands(const KernelArgs& args)
      : count(args.in[0].count),
        a(args.in[0].as<const int32_t>()),
        b(args.in[1].as<const int32_t>()),
        y(args.out[0].as<float>()) {}

  int64_t count;
  const int32_t *a, *b;
  float* y;
};

}  // namespace oneflow
