// The element types of tensors. Plain C++ without Abseil, so that CUDA sources may include it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace oneflow {

// The numeric values are written to plans; never renumber.
enum class DType : uint8_t {
  kFloat32 = 0,
  kBFloat16 = 1,
  kFloat16 = 2,
  kInt32 = 3,
  kInt64 = 4,
  kUInt8 = 5,
  kBool = 6,
};
inline constexpr int kNumDTypes = 7;
inline constexpr DType kAllDTypes[kNumDTypes] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kInt32,
                                                 DType::kInt64,   DType::kUInt8,    DType::kBool};

// Bytes of one element.
constexpr size_t SizeOf(DType dtype) {
  constexpr size_t kSizes[kNumDTypes] = {4, 2, 2, 4, 8, 1, 1};
  return kSizes[static_cast<int>(dtype)];
}

// "f32", "bf16", "f16", "i32", "i64", "u8", "bool".
constexpr const char* Name(DType dtype) {
  constexpr const char* kNames[kNumDTypes] = {"f32", "bf16", "f16", "i32", "i64", "u8", "bool"};
  return kNames[static_cast<int>(dtype)];
}

// Inverse of Name(). False if `name` names no dtype; `*dtype` is then untouched.
constexpr bool ParseDType(const char* name, DType* dtype) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const char* a = Name(static_cast<DType>(i));
    const char* b = name;
    while (*a != '\0' && *a == *b) ++a, ++b;
    if (*a == '\0' && *b == '\0') {
      *dtype = static_cast<DType>(i);
      return true;
    }
  }
  return false;
}

constexpr bool IsFloating(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16;
}

// Floating types of 16 bits: what is computed in them is summed in f32 and rounded once.
constexpr bool IsNarrow(DType dtype) { return dtype == DType::kBFloat16 || dtype == DType::kFloat16; }

}  // namespace oneflow
