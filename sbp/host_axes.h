// Mesh axes and hosts. An axis over several hosts with several ranks on each has two factors: one between hosts and one
// inside them. To change a type along one factor only, a placement replaces the axis by both:
//
//   [dp=8]{0..7}, hosts of 4 ranks        [dp_hosts=2,dp_inside=4]{0..7}        the same ranks in the same order
//
// P, B and splits into even parts mean the same along an axis and along its factors. An axis that hosts cut unevenly
// (6 ranks on hosts of 4 and 2) has no factors; boxing paths then use the whole axis.
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

// Those of the marked `axes` along which all ranks share a host; none if hosts cut the placement unevenly.
std::vector<bool> OnOneHost(const Placement& placement, std::vector<bool> axes, const Topology& topology);

// The size of the inner factor of each marked axis; 0 for an axis that has no factors or is not marked.
std::vector<int> HostFactors(const Placement& placement, const std::vector<bool>& axes, const Topology& topology);
// `dist` with every axis replaced by its factors, if it has any. Both factors get the SBP of the axis.
DistType Factored(DistType dist, const std::vector<int>& factors);

// Both types, factored wherever one of them is, so that their axes match; nothing if they match already. An axis that
// splits unevenly is not factored.
std::optional<std::pair<DistType, DistType>> OnCommonAxes(const Shape& shape, const DistType& from, const DistType& to);

}  // namespace oneflow
