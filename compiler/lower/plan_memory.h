// What a plan takes of memory: told by what it is for, and held against what devices and hosts have.
#pragma once

#include <string>

#include "proto/plan.pb.h"
#include "sbp/topology.h"

namespace oneflow {

// ResourceExhausted if ranks of a class need more than their device has, or the ranks of a host whose devices are its cores more than
// the host has: naming the first such rank, both sizes, what takes most and what would change that. Memory that nobody knows the size of is
// never too small. Kernels' own scratch areas are not in a plan; a worker asks for them when it loads it.
absl::Status CheckDeviceMemory(const pb::PlanSet& set, const Topology& topology);

// A table per class of ranks: of each plan, what is in use at its fullest time, by what it is for. REQUIRES: CheckPlanIndices is OK.
std::string PlanMemoryText(const pb::PlanSet& set);

}  // namespace oneflow
