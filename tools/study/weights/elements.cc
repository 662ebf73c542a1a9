#include "tools/study/weights/elements.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "actor/element.h"

namespace oneflow {
namespace {

// 32 x 32 floats of two matrices stay in the first cache while they change places.
constexpr int64_t kTile = 32;

// Copies [rows, columns], whose rows are `from_stride` and `to_stride` apart.
void CopyRows(const float* from, int64_t from_stride, float* to, int64_t to_stride, int64_t rows, int64_t columns) {
  if (columns == 0) return;
  for (int64_t r = 0; r < rows; ++r) std::memcpy(to + r * to_stride, from + r * from_stride, columns * sizeof(float));
}

// to[c, r] = from[r, c].
void CopyTransposed(const float* from, int64_t from_stride, float* to, int64_t to_stride, int64_t rows,
                    int64_t columns) {
  for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
    for (int64_t c0 = 0; c0 < columns; c0 += kTile) {
      for (int64_t r = r0; r < std::min(rows, r0 + kTile); ++r) {
        for (int64_t c = c0; c < std::min(columns, c0 + kTile); ++c) to[c * to_stride + r] = from[r * from_stride + c];
      }
    }
  }
}

// The rectangle of a tensor, seen as a matrix, that a piece is.
struct Rectangle {
  int64_t offset, stride, rows, columns;
};

Rectangle RectangleOf(const Piece& piece, const Shape& shape) {
  if (shape.rank() == 0) return {0, 1, 1, 1};
  if (piece.transpose) {  // of two dimensions
    if (piece.axis == 0) return {piece.begin * shape[1], shape[1], piece.extent, shape[1]};
    return {piece.begin, shape[1], shape[0], piece.extent};
  }
  int64_t outer = 1, inner = 1;
  for (int d = 0; d < piece.axis; ++d) outer *= shape[d];
  for (int d = piece.axis + 1; d < shape.rank(); ++d) inner *= shape[d];
  return {piece.begin * inner, shape[piece.axis] * inner, outer, piece.extent * inner};
}

}  // namespace

absl::Status ToFloats(StoredDType from, const void* data, int64_t count, float* to) {
  if (from == DType::kFloat32) {
    if (count > 0) std::memcpy(to, data, count * sizeof(float));
    return absl::OkStatus();
  }
  if (from.ours().has_value()) {
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(LoadElement(*from.ours(), data, i));
    return absl::OkStatus();
  }
  for (int64_t i = 0; i < count; ++i) {
    double value;
    std::memcpy(&value, static_cast<const char*>(data) + i * sizeof(value), sizeof(value));
    to[i] = static_cast<float>(value);
    if (std::isfinite(value) && !std::isfinite(to[i])) {
      return absl::InvalidArgumentError(absl::StrCat("element ", i, " is ", value, ", which is too large for f32"));
    }
  }
  return absl::OkStatus();
}

absl::Status FromFloats(const float* from, int64_t count, DType to, void* data) {
  if (to == DType::kFloat32) {
    if (count > 0) std::memcpy(data, from, count * sizeof(float));
    return absl::OkStatus();
  }
  for (int64_t i = 0; i < count; ++i) {
    StoreElement(to, data, i, from[i]);
    if (std::isfinite(from[i]) && !std::isfinite(LoadElement(to, data, i))) {
      return absl::InvalidArgumentError(
          absl::StrCat("element ", i, " is ", from[i], ", which is too large for ", Name(to)));
    }
  }
  return absl::OkStatus();
}

bool IsWhole(const Piece& piece, const Shape& shape) {
  return !piece.transpose && (shape.rank() == 0 || piece.extent == shape[piece.axis]);
}

void CutOut(const Piece& piece, const Shape& shape, const float* tensor, float* ours) {
  const Rectangle r = RectangleOf(piece, shape);
  if (piece.transpose) return CopyTransposed(tensor + r.offset, r.stride, ours, r.rows, r.rows, r.columns);
  CopyRows(tensor + r.offset, r.stride, ours, r.columns, r.rows, r.columns);
}

void PutIn(const Piece& piece, const Shape& shape, const float* ours, float* tensor) {
  const Rectangle r = RectangleOf(piece, shape);
  if (piece.transpose) return CopyTransposed(ours, r.rows, tensor + r.offset, r.stride, r.columns, r.rows);
  CopyRows(ours, r.columns, tensor + r.offset, r.stride, r.rows, r.columns);
}

}  // namespace oneflow
