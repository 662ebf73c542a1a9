// From the plan of a job to the program of one worker: what the plan says by classes and rules is spelled out for the
// ranks of one process, as actors, registers, copies and calls at concrete offsets.
//
// The cost is that of the program: what a rank reads from whom is looked for among the group of ranks that its boxings
// concern (sbp/boxing_group.h), never among all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "oneflow_core/status.h"
#include "proto/plan.pb.h"
#include "proto/program.pb.h"

namespace oneflow {

// Version of the program format; the runtime refuses any other.
inline constexpr uint32_t kProgramVersion = 5;

// The program of `process`; nothing: that of all processes together, for tests and for people. `hash` is the plan's
// PlanHash. InvalidArgument, saying where, what and both values, if the plan is malformed or has no such process.
absl::StatusOr<pb::Program> ProgramOf(const pb::PlanSet& plan, std::optional<int> process, const std::string& hash);

}  // namespace oneflow
