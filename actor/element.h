// One element of host memory as a double, for values that people see (losses, token ids) and for initial values.
#pragma once

#include <cstdint>

#include "kernels/bfloat16.h"
#include "kernels/float16.h"
#include "oneflow_core/dtype.h"

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
  using namespace element_internal;
  switch (dtype) {
    case DType::kFloat32:
      return Load<float>(data, index);
    case DType::kBFloat16:
      return FromBFloat16(static_cast<const uint16_t*>(data)[index]);
    case DType::kFloat16:
      return Load<NativeFloat16>(data, index);
    case DType::kInt32:
      return Load<int32_t>(data, index);
    case DType::kInt64:
      return Load<int64_t>(data, index);
    case DType::kUInt8:
      return Load<uint8_t>(data, index);
    case DType::kBool:
      return static_cast<const uint8_t*>(data)[index] != 0;
  }
  return 0;
}

// Integers are truncated towards zero. REQUIRES: the value is in the dtype's range.
inline void StoreElement(DType dtype, void* data, int64_t index, double value) {
  using namespace element_internal;
  switch (dtype) {
    case DType::kFloat32:
      return Store<float>(data, index, value);
    case DType::kBFloat16:
      static_cast<uint16_t*>(data)[index] = ToBFloat16(static_cast<float>(value));
      return;
    case DType::kFloat16:
      return Store<NativeFloat16>(data, index, value);
    case DType::kInt32:
      return Store<int32_t>(data, index, value);
    case DType::kInt64:
      return Store<int64_t>(data, index, value);
    case DType::kUInt8:
      return Store<uint8_t>(data, index, value);
    case DType::kBool:
      static_cast<uint8_t*>(data)[index] = value != 0;
      return;
  }
}

}  // namespace oneflow
