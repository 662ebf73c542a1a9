// The element types of safetensors files, with some of which the engine computes, and the types of tensors in files.
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "oneflow_core/dtype.h"
#include "oneflow_core/shape.h"

namespace oneflow {

// A small value: one of the format's element types.
class StoredDType {
 public:
  StoredDType(DType dtype);  // NOLINT: all of the engine's types can be stored
  // "F32", "BF16", "F8_E4M3": names are upper-case. Nothing if the format has no such type.
  static std::optional<StoredDType> Find(absl::string_view name);

  const char* name() const;           // as files have it
  int bits() const;                   // of an element; fewer than 8 in some types
  std::optional<DType> ours() const;  // the engine's type; nothing: it has none
  bool is_floating() const;           // F64, F32, F16 or BF16

  bool operator==(StoredDType other) const { return row_ == other.row_; }
  bool operator!=(StoredDType other) const { return row_ != other.row_; }

 private:
  explicit StoredDType(int row, int /*unused*/) : row_(row) {}

  int row_;  // of the table of types
};

// Printed as "f64[2,3]", like the engine's tensor types.
struct StoredType {
  StoredType() = default;
  StoredType(StoredDType dtype, Shape shape) : dtype(dtype), shape(std::move(shape)) {}
  StoredType(const TensorType& type) : dtype(type.dtype), shape(type.shape) {}  // NOLINT: so that both compare

  StoredDType dtype = DType::kFloat32;
  Shape shape;

  // REQUIRES: the elements end on a byte, as those of files do.
  int64_t num_bytes() const;
  std::string ToString() const;
  std::optional<TensorType> ours() const;  // nothing: the engine has no such elements

  bool operator==(const StoredType& other) const { return dtype == other.dtype && shape == other.shape; }
  bool operator!=(const StoredType& other) const { return !(*this == other); }
};

}  // namespace oneflow
