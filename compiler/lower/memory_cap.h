// A cap on the memory of devices, which computing segments again has to meet (RecomputeOptions::memory_bytes): the plan
// whose step is shortest among those that fit.
//
//   1. the graphs without and with all segments computed again: what each segment holds, frees and takes
//   2. which of them are computed again, by budgets of activations for each stage (recompute_choice.h)
//   3. the plan with these; its bytes say how much more or less the budgets may be; again from 2, a few times
//   4. one segment fewer, or one or two others instead, as long as such plans fit and are shorter, a few times
//
// Bytes are those of finished plans, so what fits, fits with all that a plan has.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/lower/compile.h"
#include "proto/plan.pb.h"

namespace oneflow {

// All graphs of a job behind the passes, by other options; with their warnings, unless that is null.
using BoxGraphs =
    std::function<absl::StatusOr<std::vector<BoxedGraph>>(const CompileOptions&, std::vector<std::string>*)>;

// `options` with a cap. ResourceExhausted, saying both sizes, if not even all segments computed again fit.
absl::StatusOr<pb::PlanSet> CompileUnderCap(const BoxGraphs& box, const CompileOptions& options, const OpRegistry& ops,
                                            std::vector<std::string>* warnings);

// What the fullest device takes.
int64_t MostBytesOfDevice(const pb::PlanSet& plan);

}  // namespace oneflow
