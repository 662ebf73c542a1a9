// Checks that the memory a kernel writes is its own, and apart from what it reads. A kernel checks its indices once and
// trusts them while it writes.
//
//   written      outputs, inputs that the op overwrites, scratch memory
//   apart from   all other operands, unless the op works in place there and both are the very same memory
#pragma once

#include "oneflow_core/op.h"
#include "proto/program.pb.h"

namespace oneflow {

// InvalidArgument, with both places, if operands of an instruction of `actor` overlap where `op` does not allow it, lie
// on another rank, or are overwritten without being the actor's. REQUIRES: the program passed CheckProgram, and `op`
// takes as many operands.
absl::Status CheckOperandMemory(const OpDef& op, const pb::Plan& plan, const pb::Actor& actor,
                                const pb::Instruction& instruction);

}  // namespace oneflow
