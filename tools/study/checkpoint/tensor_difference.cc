#include "tools/study/checkpoint/tensor_difference.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_format.h"
#include "actor/element.h"

namespace oneflow {
namespace {

using LoadFunction = double (*)(const char* data, int64_t index);

template <typename T>
double LoadAs(const char* data, int64_t index) {
  T value;
  std::memcpy(&value, data + index * sizeof(T), sizeof(T));
  return static_cast<double>(value);
}

template <DType dtype>
double LoadOurs(const char* data, int64_t index) {
  return LoadElement(dtype, data, index);
}

// Null: elements of the type are no numbers that can be compared.
LoadFunction LoadOf(StoredDType dtype) {
  const struct {
    StoredDType dtype;
    LoadFunction load;
  } kLoads[] = {
      {DType::kFloat32, LoadOurs<DType::kFloat32>},  {DType::kBFloat16, LoadOurs<DType::kBFloat16>},
      {DType::kFloat16, LoadOurs<DType::kFloat16>},  {DType::kInt32, LoadOurs<DType::kInt32>},
      {DType::kInt64, LoadOurs<DType::kInt64>},      {DType::kUInt8, LoadOurs<DType::kUInt8>},
      {DType::kBool, LoadOurs<DType::kBool>},        {*StoredDType::Find("F64"), LoadAs<double>},
      {*StoredDType::Find("U64"), LoadAs<uint64_t>}, {*StoredDType::Find("U32"), LoadAs<uint32_t>},
      {*StoredDType::Find("U16"), LoadAs<uint16_t>}, {*StoredDType::Find("I16"), LoadAs<int16_t>},
      {*StoredDType::Find("I8"), LoadAs<int8_t>},
  };
  for (const auto& row : kLoads) {
    if (row.dtype == dtype) return row.load;
  }
  return nullptr;
}

}  // namespace

std::string TensorDifference(const StoredType& a, const char* a_bytes, const StoredType& b, const char* b_bytes) {
  const int64_t count = a.shape.count();
  const bool is_one_type = a.dtype == b.dtype;
  if (count == 0 || (is_one_type && std::memcmp(a_bytes, b_bytes, static_cast<size_t>(a.num_bytes())) == 0)) return "";
  const LoadFunction load_a = LoadOf(a.dtype), load_b = LoadOf(b.dtype);
  if (load_a == nullptr || load_b == nullptr) return is_one_type ? "their bytes differ" : "";
  int64_t differing = 0;
  double largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double x = load_a(a_bytes, i), y = load_b(b_bytes, i);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    ++differing;
    largest = std::max(largest, std::abs(x - y));
  }
  if (differing > 0) return absl::StrFormat("%d of %d elements differ, by %g at most", differing, count, largest);
  return is_one_type ? "the numbers are equal, but not their bits: zeros of either sign, or NaNs" : "";
}

}  // namespace oneflow
