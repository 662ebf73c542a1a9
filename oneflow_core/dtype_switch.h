// From an element type that is known when a program runs to the C++ type that code is compiled for.
#pragma once

#include <cstdint>

#include "oneflow_core/dtype.h"

namespace oneflow {

// body.operator()<T>() with the C++ type T of elements of `dtype`, and its result. The 16-bit floats have a type for
// each kind of device, which the caller gives. REQUIRES: `dtype` is one of kAllDTypes.
template <typename BFloat16, typename Float16, typename Body>
decltype(auto) ByDType(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::kFloat32:
      return body.template operator()<float>();
    case DType::kBFloat16:
      return body.template operator()<BFloat16>();
    case DType::kFloat16:
      return body.template operator()<Float16>();
    case DType::kInt32:
      return body.template operator()<int32_t>();
    case DType::kInt64:
      return body.template operator()<int64_t>();
    case DType::kUInt8:
      return body.template operator()<uint8_t>();
    default:
      return body.template operator()<bool>();
  }
}

}  // namespace oneflow
