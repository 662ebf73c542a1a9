// What ops over the last dimension share: numbers of rows and of columns, which are f32 whatever x is.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/ops/check.h"

namespace oneflow::ops {

// One number for each row of `x`, and one for each of its columns.
inline TensorType OnePerRow(const TensorType& x, DType dtype = DType::kFloat32) {
  std::vector<int64_t> rows = x.shape.dims();
  rows.pop_back();
  return {dtype, Shape(std::move(rows))};
}
inline TensorType OnePerColumn(const TensorType& x) { return {DType::kFloat32, {x.shape.dims().back()}}; }

// Inputs from `first` on are of that type, of these names.
inline absl::Status CheckAllAre(const InferContext& c, const TensorType& x, const TensorType& expected, int first,
                                std::initializer_list<absl::string_view> names) {
  const std::string because = absl::StrCat("x, which is ", x.ToString(), ",");
  for (const absl::string_view name : names) {
    OF_RETURN_IF_ERROR(CheckType(name, c.inputs[first++], expected, because));
  }
  return absl::OkStatus();
}
inline absl::Status CheckOnePerRow(const InferContext& c, const TensorType& x, int first,
                                   std::initializer_list<absl::string_view> names) {
  return CheckAllAre(c, x, OnePerRow(x), first, names);
}
inline absl::Status CheckOnePerColumn(const InferContext& c, const TensorType& x, int first,
                                      std::initializer_list<absl::string_view> names) {
  return CheckAllAre(c, x, OnePerColumn(x), first, names);
}

// The attribute `axis` of a bias that is fused: the last dimension of input 0, which any other is not.
inline absl::Status CheckLastAxis(const InferContext& c) {
  const int last = c.inputs[0].shape.rank() - 1;
  OF_ASSIGN_OR_RETURN(const int64_t axis, IntAttrOr(c.attrs, "axis", -1, -1, last));
  if (axis == -1 || axis == last) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("attribute 'axis' is ", axis, " but must be the last, ", last));
}

}  // namespace oneflow::ops
