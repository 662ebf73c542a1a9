// Mesh axes as they lie on hosts. An axis whose ranks are on several hosts, several on each, has two factors, one
// between hosts and one inside them; to change a type along one factor only, the placement has both in the axis' place:
//
//   [dp=8]{0..7}, hosts of 4 ranks        [dp_hosts=2,dp_inside=4]{0..7}        the same ranks in the same order
//
// P and B mean the same along an axis and along its factors, and so does a split into even parts. Where hosts cut an
// axis unevenly (6 ranks on hosts of 4 and 2) it has no factors, and ways go along the whole of it.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "oneflow_core/mesh.h"
#include "oneflow_core/shape.h"
#include "sbp/topology.h"

namespace oneflow {

// Whether any two of the ranks are on different hosts.
bool SpansHosts(const Placement& placement, const Topology& topology);

// Of the axes marked in `axes` those along which no two ranks are on different hosts; none where hosts cut the
// placement unevenly.
std::vector<bool> OnOneHost(const Placement& placement, std::vector<bool> axes, const Topology& topology);

// How many ranks the inner factor of each axis marked in `axes` has; 0 where an axis has no factors, or is not marked.
std::vector<int> HostFactors(const Placement& placement, const std::vector<bool>& axes, const Topology& topology);
// `dist` with every axis as its factors that has any, and its SBP for both.
DistType Factored(DistType dist, const std::vector<int>& factors);

// Both types with factors wherever one of them has them, so that their axes match; nothing if they match as they are.
// Splits into uneven parts stay whole.
std::optional<std::pair<DistType, DistType>> OnCommonAxes(const Shape& shape, const DistType& from, const DistType& to);

}  // namespace oneflow
