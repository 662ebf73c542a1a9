// The checks that every boxing makes of its arguments.
#pragma once

#include "oneflow_core/mesh.h"
#include "oneflow_core/shape.h"
#include "sbp/topology.h"

namespace oneflow {

// InvalidArgument if a type does not fit the tensor or a rank is not in the topology.
absl::Status CheckBoxing(const TensorType& type, const DistType& from, const DistType& to, const Topology& topology);

// The reduction of all partial axes of the two types, sum if there are none. Unimplemented if they differ.
absl::StatusOr<Reduction> ReductionOf(const DistType& from, const DistType& to);

}  // namespace oneflow
