// From an element type that is known when a program runs to the C++ type that code is compiled for.
#pragma once

#include <cstdint>

#include "oneflow_core/dtype.h"

namespace oneflow {

// body.operator()<T>() with the C++ type T of elements of `dtype`, and its result; otherwise(), of the same type, for
// what is not floating. The 16-bit floats have a type for each kind of device, which the caller gives.
template <typename BFloat16, typename Float16, typename Body, typename Otherwise>
decltype(auto) ByFloatDType(DType dtype, Body&& body, Otherwise&& otherwise) {
  switch (dtype) {
    case DType::kFloat32:
      return body.template operator()<float>();
    case DType::kBFloat16:
      return body.template operator()<BFloat16>();
    case DType::kFloat16:
      return body.template operator()<Float16>();
    default:
      return otherwise();
  }
}

// As ByFloatDType, of all types. REQUIRES: `dtype` is one of kAllDTypes.
template <typename BFloat16, typename Float16, typename Body>
decltype(auto) ByDType(DType dtype, Body&& body) {
  return ByFloatDType<BFloat16, Float16>(dtype, body, [&]() -> decltype(auto) {
    if (dtype == DType::kInt32) return body.template operator()<int32_t>();
    if (dtype == DType::kInt64) return body.template operator()<int64_t>();
    if (dtype == DType::kUInt8) return body.template operator()<uint8_t>();
    return body.template operator()<bool>();
  });
}

}  // namespace oneflow
