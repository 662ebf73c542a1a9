// What a plan takes of memory: told by what it is for, and held against what devices and hosts have.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "proto/plan.pb.h"
#include "sbp/topology.h"

namespace oneflow {

// ResourceExhausted if ranks of a class need more than their device has beside what libraries take, or the ranks of a
// host more of its own memory (all of theirs where devices are its cores, else what is read and fetched) than it has:
// naming the first such rank, both sizes, what takes most and what would change that. Memory that nobody knows the size
// of is never too small. Kernels that need more scratch memory than the plan was told of (KernelScratch) take it
// beside.
absl::Status CheckDeviceMemory(const pb::PlanSet& set, const Topology& topology);

// A table per class of ranks: of each plan, what is in use at its fullest time, by what it is for. REQUIRES:
// CheckPlanIndices is OK.
std::string PlanMemoryText(const pb::PlanSet& set);

// Of a rank of this class: what is in use when most is, in the plan that takes most, by what it is for; and as "unused"
// what the rank has beside that. REQUIRES: as above.
std::map<std::string, int64_t> MemoryAtPeak(const pb::PlanSet& set, int rank_class);

}  // namespace oneflow
