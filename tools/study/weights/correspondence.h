// Which tensors of theirs a model's variables are made of, and where each variable lies in them.
//
//   rules + variables of the model            a tensor of theirs        its pieces
//   h0/attn/q/weight f32[8,8], part 0 of 3
//   h0/attn/k/weight f32[8,8], part 1 of 3    h.0.attn.c_attn [8,24]    columns [0,8) [8,16) [16,24)
//   h0/attn/v/weight f32[8,8], part 2 of 3
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "oneflow_core/shape.h"
#include "oneflow_core/status.h"
#include "tools/study/weights/mapping.h"

namespace oneflow {

// A variable of the model.
struct ModelVariable {
  std::string name;
  TensorType type;
};

// Where a variable lies in a tensor of theirs: elements [begin, begin + extent) of `axis`, all of the other axes.
struct Piece {
  int variable = 0;  // of the model's
  bool transpose = false;
  int axis = 0;
  int64_t begin = 0, extent = 0;
};

struct TheirTensor {
  std::string name;
  Shape shape;  // what the variables fill
  // A file may have more rows, of which the variable is the first.
  bool leading_rows = false;
  std::vector<Piece> pieces;  // by ascending `begin`
};

struct Correspondence {
  std::vector<TheirTensor> tensors;  // by name
  std::vector<int> unnamed;          // variables for which the mapping has no rule
};

// InvalidArgument naming the variables and the tensor if two rules are for one variable, a part is missing or comes
// twice, two variables are the whole of one tensor, the parts of a tensor do not fit together, or a transposed variable
// is no matrix.
absl::StatusOr<Correspondence> Correspond(const Mapping& mapping, const std::vector<ModelVariable>& variables);

}  // namespace oneflow
