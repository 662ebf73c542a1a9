// The checks that every boxing makes of its arguments.
#pragma once

#include "oneflow_core/mesh.h"
#include "oneflow_core/shape.h"
#include "sbp/topology.h"

namespace oneflow {

// InvalidArgument if tensors that ranks have each of their own, P(mean), are read as one. They differ: to read that of
// one rank for all would be a mistake, and to move their mean a decision, which an op that makes rows of them says.
absl::Status CheckMeansStay(const DistType& from, const DistType& to);

// InvalidArgument if a type does not fit the tensor, a rank is not in the topology, or as CheckMeansStay.
absl::Status CheckBoxing(const TensorType& type, const DistType& from, const DistType& to, const Topology& topology);

// The reduction of all partial axes of the two types, sum if there are none. Unimplemented if they differ.
absl::StatusOr<Reduction> ReductionOf(const DistType& from, const DistType& to);

}  // namespace oneflow
