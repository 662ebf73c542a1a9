#include "actor/instruction/ragged_operand.h"

#include <algorithm>

#include "kernels/families.h"

namespace oneflow {

RaggedOperand::RaggedOperand(const RaggedRule& rule, const std::vector<int>& letters, const TensorArg& x)
    : dims_(x.dims, x.dims + x.rank), start_(x.start, x.start + x.rank) {
  const int groups = NumGroupDims(rule, letters);
  for (int d = 0; d < groups; ++d) {
    const auto it = std::find(rule.groups.begin(), rule.groups.end(), letters[d]);
    axes_.push_back(letters[d] == FactorRule::kNone ? kOne : static_cast<int>(it - rule.groups.begin()));
  }
  has_rows_ = groups < x.rank && letters[groups] == rule.rows;
}

TensorArg RaggedOperand::Take(const TensorArg& whole, const std::vector<int64_t>& group, int64_t rows) {
  TensorArg x = whole;
  int64_t position = 0;  // of the group, among those of the operand
  for (int d = 0; d < num_groups(); ++d) {
    const int64_t index = axes_[d] == kOne ? 0 : group[axes_[d]];
    position = position * whole.dims[d] + index;
    dims_[d] = 1;
    start_[d] = whole.start[d] + index;
  }
  if (has_rows_) dims_[num_groups()] = rows;
  x.data =
      whole.as<char>() + position * Product(whole, num_groups(), whole.rank) * static_cast<int64_t>(SizeOf(x.dtype));
  x.dims = dims_.data();
  x.start = start_.data();
  x.count = Product(x, 0, x.rank);
  return x;
}

std::span<const TensorArg> TakeAll(std::vector<RaggedOperand>& operands, std::span<const TensorArg> wholes,
                                   const std::vector<int64_t>& group, int64_t rows, std::vector<TensorArg>& parts) {
  for (size_t i = 0; i < parts.size(); ++i) parts[i] = operands[i].Take(wholes[i], group, rows);
  return parts;
}

bool Advance(const std::vector<int64_t>& extent, std::vector<int64_t>& group) {
  for (size_t d = extent.size(); d-- > 0;) {
    if (++group[d] < extent[d]) return true;
    group[d] = 0;
  }
  return false;
}

}  // namespace oneflow
