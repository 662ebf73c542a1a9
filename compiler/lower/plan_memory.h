// The memory of a plan: by purpose, and compared with the memory of devices and hosts.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "proto/plan.pb.h"
#include "sbp/topology.h"

namespace oneflow {

// ResourceExhausted if ranks of a class need more than their device has beside libraries, or the ranks of a host more
// host memory than it has (all memory where devices are its cores, else memory for reading and fetching). It names the
// first such rank, both sizes, the largest uses and a remedy. Memory of unknown size is never too small. Kernels that
// need more scratch memory than the plan was told of (KernelScratch) allocate it beside.
absl::Status CheckDeviceMemory(const pb::PlanSet& set, const Topology& topology);

// A table per class of ranks: the use of each plan at its fullest time, by purpose. REQUIRES: CheckPlanIndices is OK.
std::string PlanMemoryText(const pb::PlanSet& set);

// Of a rank of this class: use at the fullest time of the largest plan, by purpose; "unused" is the rest of the rank's
// memory. REQUIRES: as above.
std::map<std::string, int64_t> MemoryAtPeak(const pb::PlanSet& set, int rank_class);

}  // namespace oneflow
