// What the ops of batch norms share: numbers of channels, which are f32 whatever x is.
#pragma once

#include <initializer_list>
#include <string>

#include "absl/strings/str_cat.h"
#include "oneflow_core/ops/check.h"

namespace oneflow::ops {

// One number for each channel of `x`.
inline TensorType PerChannel(const TensorType& x) { return {DType::kFloat32, {x.shape[1]}}; }

// Inputs from `first` on are numbers of x's channels, of these names.
inline absl::Status CheckPerChannel(const InferContext& c, const TensorType& x, int first,
                                    std::initializer_list<absl::string_view> names) {
  const std::string because = absl::StrCat("x, which is ", x.ToString(), ",");
  for (const absl::string_view name : names) {
    OF_RETURN_IF_ERROR(CheckType(name, c.inputs[first++], PerChannel(x), because));
  }
  return absl::OkStatus();
}

// Means and variances of no elements are not defined.
inline absl::Status CheckHasElements(const InferContext& c, const TensorType& x) {
  if (c.of_shards || x.shape.count() > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("x is ", x.ToString(), " but must have at least one element"));
}

}  // namespace oneflow::ops
