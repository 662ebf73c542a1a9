// The passes over a row of softmax, of cross entropy and of their parts. All compute in float.
#pragma once

#include <cmath>

#include "kernels/cpu/half.h"
#include "kernels/cpu/vec.h"

namespace oneflow::cpu {

// The largest of n elements; -infinity if there are none.
template <typename T>
OF_INLINE float LargestOf(const T* x, int64_t n) {
  F32s max = Splat(-INFINITY);
  VecLoop(n, [&](int64_t i, auto lanes) { max = Max(max, Load(x + i, lanes, -INFINITY)); });
  return MaxOf(max);
}

// The sum of exp(x - m) over n elements.
template <typename T>
OF_INLINE float SumOfExp(const T* x, int64_t n, float m) {
  F32s sum = Splat(0);
  VecLoop(n, [&](int64_t i, auto lanes) { sum += Keep(Exp(Load(x + i, lanes) - m), lanes); });
  return Sum(sum);
}

template <typename T>
OF_INLINE float DotOf(const T* a, const T* b, int64_t n) {
  F32s dot = Splat(0);
  VecLoop(n, [&](int64_t i, auto lanes) { dot += Load(a + i, lanes) * Load(b + i, lanes); });
  return Sum(dot);
}

// dx = y (dy - dot), where dot = sum(dy y) over all columns.
template <typename T>
OF_INLINE void SoftmaxGradRow(const T* dy, const T* y, int64_t n, float dot, T* dx) {
  VecLoop(n, [&](int64_t i, auto lanes) { Store(dx + i, Load(y + i, lanes) * (Load(dy + i, lanes) - dot), lanes); });
}

}  // namespace oneflow::cpu
