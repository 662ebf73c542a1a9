// Checks one instruction: its operands and scratch memory here, the rest by the check of its kind
// (instruction/kinds.h).
#pragma once

#include "oneflow_core/status.h"
#include "proto/program.pb.h"

namespace oneflow {

// InvalidArgument, saying which operand and what, unless every operand lies in its slot, landing or zone, aligned, and
// all numbers of the instruction make sense. REQUIRES: registers, and ports and landings of `actor`, were checked.
absl::Status CheckInstruction(const pb::Program& program, const pb::Plan& plan, const pb::Actor& actor,
                              const pb::Instruction& instruction);

}  // namespace oneflow
