// The kinds of instruction: for each its check and its binder, side by side. A new kind is a row of the table in
// kinds.cc and a file with its two functions.
//
//   program_check ──► check    numbers of the instruction that nobody may trust yet
//   executor      ──► bind     the instruction, ready to run
#pragma once

#include "absl/types/span.h"
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

// The input of checking an instruction. Its operands and its scratch memory were checked.
struct Unchecked {
  const pb::Program& program;
  const pb::Actor& actor;
  const pb::Instruction& instruction;
};

struct InstructionKind {
  pb::Instruction::Kind kind;
  // InvalidArgument, saying what and both values, if a number of the instruction makes no sense.
  absl::Status (*check)(const Unchecked& unchecked);
  // Errors as BindInstruction's. REQUIRES: the program passed CheckProgram.
  BoundOrError (*bind)(Unbound unbound);
  // Whether a kernel computes on its operands: they are aligned for it, and may lie in blocks of channels.
  bool calls_kernel = false;
  // Whether it may read what has landed from another host.
  bool reads_landings = false;
  // Whether its operands may lie in a zone that is not the device's.
  bool reaches_tiers = false;
};

absl::Span<const InstructionKind> InstructionKinds();
// Null if there is no such kind.
const InstructionKind* FindKind(pb::Instruction::Kind kind);

// The rows' functions, each in the file of its kind.
absl::Status CheckCompute(const Unchecked& unchecked);
absl::Status CheckCopy(const Unchecked& unchecked);
absl::Status CheckCollective(const Unchecked& unchecked);
absl::Status CheckRead(const Unchecked& unchecked);
absl::Status CheckFetch(const Unchecked& unchecked);
absl::Status CheckHostCall(const Unchecked& unchecked);
absl::Status CheckMove(const Unchecked& unchecked);
BoundOrError BindCompute(Unbound unbound);
BoundOrError BindCopy(Unbound unbound);
BoundOrError BindCollective(Unbound unbound);
BoundOrError BindRead(Unbound unbound);
BoundOrError BindFetch(Unbound unbound);
BoundOrError BindHostCall(Unbound unbound);
BoundOrError BindMove(Unbound unbound);

// Errors of kernels, devices and collectives: null, or which call failed.
inline absl::Status Checked(const char* error) {
  return error == nullptr ? absl::OkStatus() : absl::InternalError(error);
}

}  // namespace oneflow
