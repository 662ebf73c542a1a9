// Sums of products that are said by letters, one for each dimension:
//
//   Einsum("bqd,bkd->bqk", {q, k})    scores of queries and keys
//   Einsum("ij->ji", {x})             a transpose
//   Einsum("bi,bj->bij", {x, y})      outer products
//
// A letter that the result lacks is summed. It is made of transposes, sums, and of a product for every operand after
// the first, from left to right: matmul where the operands share no letter that stays, batch_matmul where they do, and
// an elementwise product where nothing is summed.
#pragma once

#include <vector>

#include "oneflow_core/functional.h"

namespace oneflow {

// The builder fails with InvalidArgument, which names the letters, if they are not the operands' (one for each
// dimension, none twice in an operand, of the same size everywhere), or the result has one that no operand has.
Tensor Einsum(absl::string_view letters, const std::vector<Tensor>& operands, Location loc = Location::current());

}  // namespace oneflow
