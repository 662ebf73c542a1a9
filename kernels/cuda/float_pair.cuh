// A sum of floats in two parts: `low` is the rounding error of `high` (Knuth, "The Art of Computer Programming" 2,
// section 4.2.2, theorem B: six additions give an addition's exact error). Together they have 48 bits. Float64 has 53,
// but adds at a half to a 64th of float's rate, and converts at less.
//
// Sums beyond the largest float are infinite.
#pragma once

#include "kernels/cuda/launch.cuh"

namespace oneflow::cuda {

struct FloatPair {
  float high, low;

  __device__ void Add(float x) {
    const float sum = high + x, added = sum - high;
    low += (high - (sum - added)) + (x - added);
    high = sum;
  }
  // Adds x * x exactly, as `square` and its rounding error. `square` is rounded by itself, not part of a fused
  // multiply-add.
  __device__ void AddSquare(float x) {
    const float square = __fmul_rn(x, x);
    Add(square);
    low += fmaf(x, x, -square);
  }
  // If `high` is not finite, the error is NaN.
  __device__ double Value() const { return isfinite(high) ? static_cast<double>(high) + low : high; }
  __device__ float Rounded() const { return isfinite(high) ? high + low : high; }
};

// Commutative to the bit.
__device__ inline FloatPair operator+(FloatPair a, FloatPair b) {
  FloatPair sum = {a.high, 0};
  sum.Add(b.high);
  return {sum.high, sum.low + (a.low + b.low)};
}

}  // namespace oneflow::cuda
