// Shapes and tensor types: a dtype and the sizes of the dimensions of one logical (or local) tensor, row-major.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "oneflow_core/dtype.h"
#include "oneflow_core/memory_layout.h"
#include "oneflow_core/status.h"

namespace oneflow {

// The most dimensions of a tensor in a graph: factor rules name each by a letter (oneflow_core/op.h).
inline constexpr int kMaxDims = 26;

// The sizes of a tensor's dimensions; {} is a scalar. Sizes are >= 0 (a local shard may be empty).
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : dims_(dims) {}
  explicit Shape(std::vector<int64_t> dims) : dims_(std::move(dims)) {}

  int rank() const { return static_cast<int>(dims_.size()); }
  // REQUIRES: 0 <= i < rank().
  int64_t operator[](int i) const { return dims_[i]; }
  const std::vector<int64_t>& dims() const { return dims_; }
  // Product of the sizes; 1 for a scalar.
  int64_t count() const;
  // Row-major strides in elements.
  std::vector<int64_t> Strides() const;

  // "[2,3]"; "[]" for a scalar.
  std::string ToString() const;
  // Inverse of ToString(). InvalidArgument if `text` is no list of sizes >= 0 or their product exceeds 2^58.
  static absl::StatusOr<Shape> Parse(absl::string_view text);

  bool operator==(const Shape& other) const { return dims_ == other.dims_; }
  bool operator!=(const Shape& other) const { return dims_ != other.dims_; }

 private:
  std::vector<int64_t> dims_;
};

// A dtype and a shape, printed as "f32[2,3]"; "f32[8,64~,32]" of a ragged one (oneflow_core/ragged.h), of whose 64 rows
// only the first are filled, in each of eight as many as its counts say.
struct TensorType {
  DType dtype = DType::kFloat32;
  Shape shape;
  int ragged = -1;  // the dimension of these rows; -1: there is none

  bool is_ragged() const { return ragged >= 0; }
  int64_t num_bytes() const { return shape.count() * static_cast<int64_t>(SizeOf(dtype)); }
  std::string ToString() const;
  // Inverse of ToString(). InvalidArgument if the dtype or the shape cannot be read, or two dimensions are ragged.
  static absl::StatusOr<TensorType> Parse(absl::string_view text);

  bool operator==(const TensorType& other) const {
    return dtype == other.dtype && shape == other.shape && ragged == other.ragged;
  }
  bool operator!=(const TensorType& other) const { return !(*this == other); }
};

// What one rank holds of a tensor.
struct ShardType {
  DType dtype = DType::kFloat32;
  Shape dims;
  Shape logical_dims;
  int ragged = -1;  // as of TensorType
  MemoryLayout layout = MemoryLayout::kRowMajor;
};

}  // namespace oneflow
