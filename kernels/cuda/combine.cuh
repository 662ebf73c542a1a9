// How a copy writes an element: it replaces the target's value, or is combined with it.
#pragma once

#include <type_traits>

#include "kernels/cuda/copy.h"
#include "kernels/cuda/half.cuh"
#include "oneflow_core/dtype_switch.h"

namespace oneflow::cuda {

struct Put {
  template <typename T>
  __device__ void operator()(const T& given, T& target) const {
    target = given;
  }
};

struct PutCombined {
  template <typename T>
  __device__ void operator()(const T& given, T& target) const {
    const auto x = Widen(given), y = Widen(target);
    if (combine == Combine::kSum) {
      target = Narrow<T>(y + x);
    } else if (x != x || (combine == Combine::kMax ? x > y : x < y)) {  // a NaN wins
      target = given;
    }
  }
  Combine combine;
};

// f.operator()<T>() for an element type that can be reduced. The result of f, or what is wrong.
template <typename F>
const char* ByCombined(DType dtype, F f) {
  return ByDType<BFloat16, Float16>(dtype, [&]<typename T>() -> const char* {
    if constexpr (std::is_same_v<T, bool>) {
      return "bool cannot be reduced";
    } else {
      return f.template operator()<T>();
    }
  });
}

// f.operator()<T>() for an element of `num_bytes` bytes that is only moved.
template <typename F>
const char* ByUnit(size_t num_bytes, F f) {
  switch (num_bytes) {
    case 1:
      return f.template operator()<uint8_t>();
    case 2:
      return f.template operator()<uint16_t>();
    case 4:
      return f.template operator()<uint32_t>();
    case 8:
      return f.template operator()<uint64_t>();
    default:
      return f.template operator()<uint4>();
  }
}

}  // namespace oneflow::cuda
