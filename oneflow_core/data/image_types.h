// The types of labelled images, which two kinds of data have, and what both say of their pixels.
#pragma once

#include <optional>
#include <vector>

#include "oneflow_core/models/config.h"
#include "oneflow_core/op.h"

namespace oneflow {

// f32[batch,channels,height,width] and i32[batch]. InvalidArgument if an attribute is missing or below 1.
absl::StatusOr<std::vector<TensorType>> ImageTypes(const AttrMap& attributes, int64_t batch);

// Sets a source's `mean` and `std` to what the fields of the same names say: lists of one number, or of one for each
// channel.
void SetNormalisation(const AttrMap& fields, AttrMap& attributes);
// What is wrong where these are images of so many channels.
std::optional<FieldComplaint> CheckNormalisation(const AttrMap& fields, int64_t channels);

}  // namespace oneflow
