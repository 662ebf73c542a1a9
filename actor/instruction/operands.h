// The operands of one instruction as addresses: bases found once, at load, and moved to the slots of each act.
//
//   load:  operand ──► base pointer, slot stride, port
//   act:   pointer = base + slot * stride
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "actor/actor.h"
#include "actor/memory.h"
#include "kernels/tensor_arg.h"
#include "proto/program.pb.h"

namespace oneflow {

// The range of an operand over all slots: [begin, end).
struct MemoryReach {
  const char* begin = nullptr;
  const char* end = nullptr;
  bool Meets(const MemoryReach& other) const { return begin < other.end && other.begin < end; }
};

class Operands {
 public:
  // The operands of an instruction of `actor`. REQUIRES: the plan passed CheckProgram, all memory is in place, and the
  // plan outlives this.
  Operands(const pb::Plan& plan, const pb::Actor& actor, const pb::Instruction& instruction, const JobMemory& memory);

  // Points them at the slots of the actor's current act.
  void MoveTo(const Actor& actor);

  std::span<const TensorArg> all() const { return args_; }  // the inputs, then the outputs
  std::span<const TensorArg> inputs() const { return all().first(num_inputs_); }
  std::span<const TensorArg> outputs() const { return all().subspan(num_inputs_); }
  // The reach of each of all().
  std::span<const MemoryReach> reaches() const { return reaches_; }

 private:
  // An operand whose address changes from act to act.
  struct Binding {
    size_t arg = 0;
    bool output_port = false;
    int port = 0;
    char* base = nullptr;
    int64_t stride = 0;
  };

  void Add(const pb::Plan& plan, const pb::Actor& actor, const pb::Operand& operand, bool output,
           const JobMemory& memory);

  std::vector<TensorArg> args_;
  std::vector<MemoryReach> reaches_;
  size_t num_inputs_ = 0;
  std::vector<Binding> bindings_;
};

inline int64_t NumBytes(const TensorArg& arg) { return arg.count * static_cast<int64_t>(SizeOf(arg.dtype)); }

}  // namespace oneflow
