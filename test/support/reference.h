// What every op means, in double precision and as plainly as possible: the independent second opinion that kernels of
// all devices, signatures and gradients are tested against. Nothing here is shared with kernels/ but the definition of
// the random numbers. The references themselves are in test/support/ops, one file per family of ops.
//
// It works on whole logical tensors. Operands that an op overwrites are overwritten in `inputs`.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "oneflow_core/attr.h"
#include "oneflow_core/dtype.h"

namespace oneflow::testing {

struct RefTensor {
  std::vector<int64_t> dims;
  std::vector<double> values;  // row-major; integers and bools are exact
  DType dtype = DType::kFloat32;
  int ragged = -1;  // as of TensorType

  int64_t count() const { return static_cast<int64_t>(values.size()); }
};

// A tensor of zeros.
RefTensor Zeros(std::vector<int64_t> dims, DType dtype = DType::kFloat32);

// `x` rounded to what its dtype can hold, as kernels will see it.
RefTensor Rounded(RefTensor x);

// When random ops draw, and which micro-batch it is.
struct RefContext {
  int64_t step = 0;
  int64_t micro_batch = 0;
};

// The outputs of one op. `accumulate` gives the sum of this one micro-batch. Unimplemented if the op is not one that
// computes.
absl::StatusOr<std::vector<RefTensor>> Reference(const std::string& op, const AttrMap& attrs,
                                                 std::vector<RefTensor>& inputs, const RefContext& context = {});

// The names that Reference() knows, in order.
std::vector<std::string> ReferenceOps();

// The part of `x` that begins at `start` with the sizes `extent`, and its inverse.
RefTensor Cut(const RefTensor& x, const std::vector<int64_t>& start, const std::vector<int64_t>& extent);
void Paste(const RefTensor& part, const std::vector<int64_t>& start, RefTensor* x);

}  // namespace oneflow::testing
