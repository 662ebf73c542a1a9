// What ops share that multiply by a weight in panels (oneflow_core/packed.h).
#pragma once

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/packed.h"

namespace oneflow::ops {

// What the product of operands `a_index` and the one behind it is, rounded to `out`. InvalidArgument if the second is
// no such weight, or has another number of rows than the first has columns.
inline absl::StatusOr<TensorType> PackedProductType(const InferContext& c, int a_index, DType out) {
  const TensorType &a = c.inputs[a_index], &w = c.inputs[a_index + 1];
  const int64_t k = kPairedRows * w.shape[1], n = kPanelColumns * w.shape[0];
  if (w.dtype != DType::kBFloat16 || !HasWholePanels(k, n) || w.shape != PackedShape(k, n)) {
    return absl::InvalidArgumentError(absl::StrCat("w is ", w.ToString(), " but must be bf16[n/", kPanelColumns, ",k/",
                                                   kPairedRows, ",", kPanelColumns, ",", kPairedRows, "]"));
  }
  std::vector<int64_t> sizes = a.shape.dims();
  if (sizes.back() != k) {
    return absl::InvalidArgumentError(
        absl::StrCat("inner dimensions differ: a is ", a.ToString(), ", w is ", w.ToString(), " of ", k, " rows"));
  }
  sizes.back() = n;
  return TensorType{out, Shape(std::move(sizes))};
}

}  // namespace oneflow::ops
