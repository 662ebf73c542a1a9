// Checks that a program makes sense, so that the runtime may trust every number. It may come from a file or from
// another host: it is only known to parse.
//
// After CheckProgram returns OK, for every plan:
//   - indices are in range: actors, registers, ranks, communicators, the inputs that pieces name
//   - ports and registers agree on who produces and who consumes, and both sides use as many slots per step
//   - every slot, variable and fixed operand lies inside its zone; every operand inside its slot; every piece inside
//     both operands
//   - registers for other processes lie in shared memory
//   - ids ascend
//   - the owners' shards of a variable do not overlap and, in a program of all processes, cover it
#pragma once

#include <cstdint>

#include "oneflow_core/status.h"
#include "proto/program.pb.h"

namespace oneflow {

// The version of the program format that this runtime executes.
inline constexpr uint32_t kRuntimeProgramVersion = 10;

// InvalidArgument, saying where, what and both values, if `program` is malformed or has ranks of other processes than 0
// .. num_processes - 1.
absl::Status CheckProgram(const pb::Program& program, int num_processes);

}  // namespace oneflow
