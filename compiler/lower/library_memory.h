// The device memory of libraries beside a plan's zones, as far as it follows from the plan.
//
//   context + loaded kernels + for each communicator of the rank:  its reductions and gathers, if it has any
//                                                                  its exchanges: for each peer
//
// The figures are those of oneflow_core/library_memory.h, all published. A job may state its own
// (cluster.library_bytes_per_device).
#pragma once

#include <cstdint>
#include <optional>

#include "oneflow_core/status.h"
#include "proto/plan.pb.h"
#include "proto/program.pb.h"

namespace oneflow {

// Of a rank of the program on a cuda device.
int64_t ExpectedLibraryBytes(const pb::Program& program, int rank);

// Writes RankClass::library_bytes of all classes: `given`, or the expected bytes of the class' first rank. REQUIRES:
// the plans are ordered, and devices are cuda. Errors as PartPrograms::Of.
absl::Status AddLibraryMemory(std::optional<int64_t> given, pb::PlanSet& set);

}  // namespace oneflow
