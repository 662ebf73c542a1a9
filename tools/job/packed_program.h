// Programs of workers as they travel: what the ranks of a process have alike is said once (proto/program.proto,
// PackedProgram).
//
//   random graph of 10^5 ops, 8 ranks in the process       every rank spelled out 246 MB, packed a tenth of it
//
// A daemon packs, its worker unpacks; the runtime knows spelled out programs only.
#pragma once

#include <cstdint>

#include "oneflow_core/status.h"
#include "proto/program.pb.h"

namespace oneflow {

pb::PackedProgram PackProgram(const pb::Program& program);

// Inverse of PackProgram. The bytes need not be trusted: InvalidArgument, saying where and both values, if an index is
// out of range or lists do not fit together; ResourceExhausted if the program would hold more parts than
// `kMaxProgramParts`. What the program says is CheckProgram's affair.
absl::StatusOr<pb::Program> UnpackProgram(const pb::PackedProgram& packed);

// Instructions, operands and their dimensions, pieces and the like of a program, together; the largest that is measured
// has 4e7.
inline constexpr int64_t kMaxProgramParts = int64_t{1} << 27;

}  // namespace oneflow
