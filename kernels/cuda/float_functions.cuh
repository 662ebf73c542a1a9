// The functions of elementwise ops on floats: what their own kernels compute and what `elementwise` does of several.
#pragma once

#include <cuda_runtime.h>

namespace oneflow::cuda {

__device__ inline float SigmoidOf(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ inline float RsqrtOf(float x) { return 1.0f / sqrtf(x); }
// Written so that NaN stays NaN: it is not < 0.
__device__ inline float ReluOf(float x) { return x < 0.0f ? 0.0f : x; }
// dy where y passed a ReLU, so also where y is NaN.
__device__ inline float ReluSlope(float dy, float y) { return y <= 0.0f ? 0.0f : dy; }

// x Phi(x) with the exact normal distribution, and its slope.
__device__ inline float GeluOf(float x) { return x * normcdff(x); }
__device__ inline float GeluSlopeAt(float x) {
  constexpr float kInvSqrt2Pi = 0.39894228040143268f;  // 1 / sqrt(2 pi)
  return normcdff(x) + x * (kInvSqrt2Pi * expf(-0.5f * x * x));
}

// Written so that a NaN in either operand comes out.
__device__ inline float LargerOf(float a, float b) { return a > b || a != a ? a : b; }
__device__ inline float SmallerOf(float a, float b) { return a < b || a != a ? a : b; }
// 1 beside a NaN, which is neither less nor equal.
__device__ inline float HeavisideOf(float a, float b) { return a < b ? 0.0f : a == b ? 0.5f : 1.0f; }

}  // namespace oneflow::cuda
