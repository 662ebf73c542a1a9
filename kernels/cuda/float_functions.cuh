// The functions of elementwise ops on floats, for their own kernels and for `elementwise`. XOf(x) and XOf(a, b) are
// those of elementwise_functions.h.
#pragma once

#include <cuda_runtime.h>

#include "oneflow_core/elementwise_functions.h"

namespace oneflow::cuda {

namespace alphabet {
__device__ inline float Exp(float x) { return expf(x); }
__device__ inline float Log(float x) { return logf(x); }
__device__ inline float Sqrt(float x) { return sqrtf(x); }
__device__ inline float Tanh(float x) { return tanhf(x); }
__device__ inline float Abs(float x) { return fabsf(x); }
__device__ inline float Phi(float x) { return normcdff(x); }
__device__ inline float Choose(bool condition, float a, float b) { return condition ? a : b; }

#define OF_DEFINE_FUNCTION(Name, op, f, ...) \
  __device__ inline float Name##Of(float x) { return f; }
ONEFLOW_UNARY_FUNCTIONS(OF_DEFINE_FUNCTION)
#undef OF_DEFINE_FUNCTION
#define OF_DEFINE_FUNCTION(Name, op, f, ...) \
  __device__ inline float Name##Of(float a, float b) { return f; }
ONEFLOW_BINARY_FUNCTIONS(OF_DEFINE_FUNCTION)
#undef OF_DEFINE_FUNCTION
}  // namespace alphabet

#define OF_USE_FUNCTION(Name, ...) using alphabet::Name##Of;
ONEFLOW_UNARY_FUNCTIONS(OF_USE_FUNCTION)
ONEFLOW_BINARY_FUNCTIONS(OF_USE_FUNCTION)
#undef OF_USE_FUNCTION

// The gradient of a ReLU: dy where y is positive or NaN, otherwise 0.
__device__ inline float ReluSlope(float dy, float y) { return y <= 0.0f ? 0.0f : dy; }

// The slope of gelu.
__device__ inline float GeluSlopeAt(float x) {
  constexpr float kInvSqrt2Pi = 0.39894228040143268f;  // 1 / sqrt(2 pi)
  return normcdff(x) + x * (kInvSqrt2Pi * expf(-0.5f * x * x));
}

}  // namespace oneflow::cuda
