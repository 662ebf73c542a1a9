// The operands of where, and what it does with an element, on every kind of device.
#pragma once

#include <cstdint>

#include "kernels/host_device.h"
#include "kernels/kernel.h"

namespace oneflow {

template <typename T>
struct WhereOperands {
  explicit WhereOperands(const KernelArgs& args)
      : a(args.in[0].as<const T>()),
        b(args.in[1].as<const T>()),
        condition(args.in[2].as<const bool>()),
        y(args.out[0].as<T>()) {}

  // y[i] = condition ? a : b, at the given places. Both are read before y is written, which may be their memory.
  OF_HOST_DEVICE void Choose(int64_t at_a, int64_t at_b, int64_t at_condition, int64_t i) const {
    const T from_a = a[at_a], from_b = b[at_b];
    y[i] = condition[at_condition] ? from_a : from_b;
  }

  const T *a, *b;
  const bool* condition;
  T* y;
};

}  // namespace oneflow
