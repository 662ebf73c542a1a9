// The 16-bit floating types. Arithmetic is in float; results are rounded to nearest even.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "kernels/cuda/launch.cuh"
#include "oneflow_core/dtype.h"
#include "oneflow_core/dtype_switch.h"

namespace oneflow::cuda {

using BFloat16 = __nv_bfloat16;
using Float16 = __half;

template <typename T>
inline constexpr bool kIsHalf = std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>;

// A 16-bit float as a float; any other value unchanged.
template <typename T>
__host__ __device__ auto Widen(T x) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return __bfloat162float(x);
  } else if constexpr (std::is_same_v<T, Float16>) {
    return __half2float(x);
  } else {
    return x;
  }
}

// `x` as a T. Floats are truncated to integers; a bool is whether x is not zero.
template <typename T, typename From>
__host__ __device__ T Narrow(From x) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return __float2bfloat16_rn(static_cast<float>(x));
  } else if constexpr (std::is_same_v<T, Float16>) {
    return __float2half_rn(static_cast<float>(x));
  } else if constexpr (std::is_same_v<T, bool>) {
    return x != From(0);
  } else {
    return static_cast<T>(x);
  }
}

// Four elements that are read and written at once.
template <typename T>
struct alignas(4 * sizeof(T)) Four {
  T of[4];
};

template <typename T, typename F, typename... X>
__device__ Four<T> MapFour(F f, Four<X>... x) {
  Four<T> y;
  for (int k = 0; k < 4; ++k) y.of[k] = Narrow<T>(f(Widen(x.of[k])...));
  return y;
}

// y[i] = f(x[i]...) for floats of any types, four at once for the first `fours`. `y` may be one of the inputs.
template <typename F, typename T, typename... X>
__global__ void MapFoursKernel(F f, int64_t n, int64_t fours, T* y, const X*... x) {
#pragma unroll 1
  for (int64_t i = FirstIndex(); i < fours; i += IndexStride()) {
    reinterpret_cast<Four<T>*>(y)[i] = MapFour<T>(f, reinterpret_cast<const Four<X>*>(x)[i]...);
  }
#pragma unroll 1
  for (int64_t i = 4 * fours + FirstIndex(); i < n; i += IndexStride()) y[i] = Narrow<T>(f(Widen(x[i])...));
}

// y[i] = f(x[i]...) for elements of floating types. f takes and returns floats.
template <typename T, typename F, typename... X>
const char* MapFloats(cudaStream_t stream, int64_t n, F f, T* y, const X*... x) {
  if constexpr (kIsHalf<T> || (kIsHalf<X> || ...)) {
    if (n == 0) return nullptr;
    return Launch({stream, Blocks(n, 4 * kThreads)}, MapFoursKernel<F, T, X...>, f, n, Fours(n, y, x...), y, x...);
  } else {
    return Map(stream, n, f, y, x...);
  }
}

// body.operator()<T>() for the element type `dtype`. Its result, or what is wrong.
template <typename Body>
const char* ByFloat(DType dtype, Body&& body) {
  return ByFloatDType<BFloat16, Float16>(dtype, body, []() -> const char* { return "the output is not floating"; });
}

}  // namespace oneflow::cuda
