// One element of host memory as a double, for values that people see (losses, token ids) and for initial values.
#pragma once

#include <cstdint>

#include "kernels/bfloat16.h"
#include "kernels/float16.h"
#include "oneflow_core/dtype_switch.h"

namespace oneflow {

namespace element_internal {

template <typename T>
double Load(const void* data, int64_t index) {
  return static_cast<double>(static_cast<const T*>(data)[index]);
}
template <typename T>
void Store(void* data, int64_t index, double value) {
  static_cast<T*>(data)[index] = static_cast<T>(value);
}

}  // namespace element_internal

inline double LoadElement(DType dtype, const void* data, int64_t index) {
  if (dtype == DType::kBFloat16) return FromBFloat16(static_cast<const uint16_t*>(data)[index]);
  if (dtype == DType::kBool) return static_cast<const uint8_t*>(data)[index] != 0;
  return ByDType<uint16_t, NativeFloat16>(dtype, [&]<typename T>() { return element_internal::Load<T>(data, index); });
}

// Integers are truncated towards zero. REQUIRES: the value is in the dtype's range.
inline void StoreElement(DType dtype, void* data, int64_t index, double value) {
  if (dtype == DType::kBFloat16) {
    static_cast<uint16_t*>(data)[index] = ToBFloat16(static_cast<float>(value));
  } else if (dtype == DType::kBool) {
    static_cast<uint8_t*>(data)[index] = value != 0;
  } else {
    ByDType<uint16_t, NativeFloat16>(dtype, [&]<typename T>() { element_internal::Store<T>(data, index, value); });
  }
}

}  // namespace oneflow
