// Elements of weights between files and f32, and variables between their own layout and their place in a tensor of
// theirs. All is host memory, dense and row-major.
#pragma once

#include <cstdint>
#include <vector>

#include "actor/checkpoint/stored_type.h"
#include "oneflow_core/status.h"
#include "tools/study/weights/correspondence.h"

namespace oneflow {

// F16 and BF16 become f32 exactly, F64 is rounded. InvalidArgument with the value if a finite number is too large for
// f32. REQUIRES: from.is_floating().
absl::Status ToFloats(StoredDType from, const void* data, int64_t count, float* to);

// Rounds to nearest even, so that numbers that ToFloats() made of this type get their bits again. InvalidArgument with
// the value if a finite number is too large. REQUIRES: `to` is f32, bf16 or f16.
absl::Status FromFloats(const float* from, int64_t count, DType to, void* data);

// Copies a variable out of its place in `tensor`, of this shape, or into it. REQUIRES: the piece lies in the tensor,
// and `ours` has room for it.
// Of a variable that is all of a tensor, as it is, there is nothing to do: IsWhole().
bool IsWhole(const Piece& piece, const Shape& shape);
void CutOut(const Piece& piece, const Shape& shape, const float* tensor, float* ours);
void PutIn(const Piece& piece, const Shape& shape, const float* ours, float* tensor);

}  // namespace oneflow
