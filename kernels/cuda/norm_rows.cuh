// The rows that a norm takes: those of x, or of the sum of a and b, which is kept as it was rounded, since that is what
// the norm is of. The sum may lie in either operand's memory: a thread reads again only what it wrote itself.
#pragma once

#include "kernels/cuda/half.cuh"

namespace oneflow::cuda {

template <typename T>
struct NormRows {
  const T* x = nullptr;  // or a
  const T* b = nullptr;  // null: there is no sum
  T* sum = nullptr;

  // Element i, before the same thread asks for it as at(i).
  __device__ float First(int64_t i) const {
    if (b == nullptr) return Widen(x[i]);
    const T rounded = Narrow<T>(Widen(x[i]) + Widen(b[i]));
    sum[i] = rounded;
    return Widen(rounded);
  }
  __device__ float at(int64_t i) const { return Widen(b == nullptr ? x[i] : sum[i]); }
};

// Operands of a norm, or of add_<norm>, whose are `added` more: a, b instead of x, and x before all outputs.
template <typename T>
NormRows<T> NormRowsOf(const KernelArgs& args, bool added) {
  if (!added) return {args.in[0].as<const T>()};
  return {args.in[0].as<const T>(), args.in[1].as<const T>(), args.out[0].as<T>()};
}

}  // namespace oneflow::cuda
