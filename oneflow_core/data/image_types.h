// The types of labelled images, which two kinds of data have.
#pragma once

#include <vector>

#include "oneflow_core/op.h"

namespace oneflow {

// f32[batch,channels,height,width] and i32[batch]. InvalidArgument if an attribute is missing or below 1.
absl::StatusOr<std::vector<TensorType>> ImageTypes(const AttrMap& attributes, int64_t batch);

}  // namespace oneflow
