// The 16-bit floating types: arithmetic sees them as floats, results are rounded to nearest even.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "oneflow_core/dtype.h"

namespace oneflow::cuda {

using BFloat16 = __nv_bfloat16;
using Float16 = __half;

template <typename T>
inline constexpr bool kIsHalf = std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>;

// What arithmetic sees: float for 16-bit floats, the value itself otherwise.
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

// `x` as a T: floats to integers truncate, anything to bool asks whether it is not zero.
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

// body.operator()<T>() with the type of elements that `dtype` names; what it returns, or what is wrong.
template <typename Body>
const char* ByFloat(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::kFloat32:
      return body.template operator()<float>();
    case DType::kBFloat16:
      return body.template operator()<BFloat16>();
    case DType::kFloat16:
      return body.template operator()<Float16>();
    default:
      return "the output is not floating";
  }
}

}  // namespace oneflow::cuda
