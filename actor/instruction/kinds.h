// One binder per kind of instruction, for bound_instruction.cc alone. Errors as BindInstruction's.
#pragma once

#include "actor/instruction/bound_instruction.h"

namespace oneflow {

// The input of binding an instruction.
struct Unbound {
  const RankContext& context;
  const pb::Plan& plan;
  const pb::Actor& actor;
  const pb::Instruction& instruction;
  Operands operands;
};

using BoundOrError = absl::StatusOr<std::unique_ptr<BoundInstruction>>;
BoundOrError BindCompute(Unbound unbound);
BoundOrError BindCopy(Unbound unbound);
BoundOrError BindCollective(Unbound unbound);
BoundOrError BindRead(Unbound unbound);
BoundOrError BindFetch(Unbound unbound);

// Errors of kernels, devices and collectives: null, or which call failed.
inline absl::Status Checked(const char* error) {
  return error == nullptr ? absl::OkStatus() : absl::InternalError(error);
}

}  // namespace oneflow
