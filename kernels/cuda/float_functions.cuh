// The functions of elementwise ops on floats, for their own kernels and for `elementwise`. XOf(x) and XOf(a, b) are
// those of elementwise_functions.h.
#pragma once

#include <cuda_runtime.h>

#include "oneflow_core/elementwise_functions.h"

namespace oneflow::cuda {

namespace alphabet {
__device__ inline float Exp(float x) { return expf(x); }
__device__ inline float Log(float x) { return logf(x); }
__device__ inline float Log1p(float x) { return log1pf(x); }
__device__ inline float Sqrt(float x) { return sqrtf(x); }
__device__ inline float Sin(float x) { return sinf(x); }
__device__ inline float Cos(float x) { return cosf(x); }
__device__ inline float Erf(float x) { return erff(x); }
__device__ inline float Tanh(float x) { return tanhf(x); }
__device__ inline float Abs(float x) { return fabsf(x); }
__device__ inline float Phi(float x) { return normcdff(x); }
__device__ inline float GeluSlope(float x) {
  constexpr float kInvSqrt2Pi = 0.39894228040143268f;  // 1 / sqrt(2 pi)
  return normcdff(x) + x * (kInvSqrt2Pi * expf(-0.5f * x * x));
}
__device__ inline float Choose(bool condition, float a, float b) { return condition ? a : b; }

#define OF_DEFINE_FUNCTION(Name, op, f, ...) \
  __device__ inline float Name##Of(float x) { return f; }
ONEFLOW_UNARY_FUNCTIONS(OF_DEFINE_FUNCTION)
#undef OF_DEFINE_FUNCTION
#define OF_DEFINE_FUNCTION(Name, op, f, ...) \
  __device__ inline float Name##Of(float a, float b) { return f; }
ONEFLOW_BINARY_FUNCTIONS(OF_DEFINE_FUNCTION)
#undef OF_DEFINE_FUNCTION
#define OF_DEFINE_FUNCTION(Name, op, f, ...) \
  __device__ inline float Name##Of(float dy, float x) { return f; }
ONEFLOW_GRADIENT_FUNCTIONS(OF_DEFINE_FUNCTION)
#undef OF_DEFINE_FUNCTION
}  // namespace alphabet

#define OF_USE_FUNCTION(Name, ...) using alphabet::Name##Of;
ONEFLOW_UNARY_FUNCTIONS(OF_USE_FUNCTION)
ONEFLOW_GRADIENT_FUNCTIONS(OF_USE_FUNCTION)
ONEFLOW_BINARY_FUNCTIONS(OF_USE_FUNCTION)
using alphabet::GeluSlope;
#undef OF_USE_FUNCTION

}  // namespace oneflow::cuda
