// An operand of a call on ragged rows, and its part for one group of rows: a contiguous piece of its memory.
//
//   x   [8,64~,32]    group 3: [1,rows,32]
//   w   [8,32,16]     group 3: [1,32,16]
//   b   [16]          all of it, for any group
#pragma once

#include <span>
#include <vector>

#include "kernels/tensor_arg.h"
#include "oneflow_core/ragged.h"

namespace oneflow {

// The most numbers of rows that a kernel prepares for: each is compiled, and kept.
inline constexpr int64_t kMostRaggedStates = 16;

class RaggedOperand {
 public:
  // An operand with these letters in the rule. REQUIRES: it lies by groups (oneflow_core/ragged.h).
  RaggedOperand(const RaggedRule& rule, const std::vector<int>& letters, const TensorArg& x);

  // How many of its first dimensions are groups, or have size 1; then come the rows, if it has them.
  int num_groups() const { return static_cast<int>(axes_.size()); }
  bool has_rows() const { return has_rows_; }
  // The part of `whole` for a group: where it has rows, the first `rows`. Until the next call.
  TensorArg Take(const TensorArg& whole, const std::vector<int64_t>& group, int64_t rows);

 private:
  bool has_rows_;
  static constexpr int kOne = -1;
  std::vector<int> axes_;              // of the first dimensions: which of the groups' it is, or kOne
  std::vector<int64_t> dims_, start_;  // of the part in hand
};

// `parts`, which now are those of `wholes` for a group, as each operand takes them.
std::span<const TensorArg> TakeAll(std::vector<RaggedOperand>& operands, std::span<const TensorArg> wholes,
                                   const std::vector<int64_t>& group, int64_t rows, std::vector<TensorArg>& parts);

// The next index of groups, the last dimension fastest; false after the last.
bool Advance(const std::vector<int64_t>& extent, std::vector<int64_t>& group);

}  // namespace oneflow
