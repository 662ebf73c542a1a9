// A cap on the memory of devices, which offloading has to meet (OffloadOptions::memory_bytes): the plan that offloads
// least among those that fit.
#pragma once

#include "compiler/lower/memory_cap.h"

namespace oneflow {

bool HasOffloadCap(const CompileOptions& options);

// Of the offloads with a cap the first so many, in their order, as it takes. ResourceExhausted, saying what each number
// of them takes, if not even all fit.
absl::StatusOr<pb::PlanSet> CompileUnderOffloadCap(const BoxGraphs& box, const CompileOptions& options,
                                                   const OpRegistry& ops, std::vector<std::string>* warnings);

}  // namespace oneflow
