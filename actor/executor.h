// Does the work of the acts of one queue of a rank. The plan's instructions are bound once, at load, so an act only
// moves operands to its slots and calls functions.
//
//   load:  instruction ──► BoundInstruction (instruction/), largest scratch area
//   act:   operands to slots ──► Run, timed where profiling is on
//          else neighbours as one call, where a kernel takes several (joined_calls.h)
//          on devices that capture work: runs of instructions as one (captured_runs.h)
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "actor/act_runner.h"
#include "actor/engine.h"
#include "actor/instruction/bound_instruction.h"

namespace oneflow {

class Executor : public ActRunner {
 public:
  // Binds all instructions of the queue's actors. REQUIRES: the plans passed CheckProgram and all memory is in place.
  // Errors as BindInstruction, with plan, actor, node, source line, rank and device; ResourceExhausted if scratch
  // memory cannot be had.
  static absl::StatusOr<std::unique_ptr<Executor>> Create(const RankContext& context);
  ~Executor() override;

  // On the queue's actor thread, before its first act. These run everything that a step launches once, on the contents
  // of the first slots of its registers, which are undefined afterwards: first all compute and copies within the rank,
  // then the collectives in the plan's order; but nothing that depends on the counts of ragged rows. So libraries load
  // kernels, make handles and connect peers here. A kernel that had to be loaded later might wait for the device while
  // a collective waits for peers there. They return when all is launched. Errors as of RunAct().
  absl::Status WarmUp();
  absl::Status WarmUpCollectives();

  // On the queue's actor thread. Internal, or the error of a source, annotated as above.
  absl::Status RunAct(const Actor& actor, Afterwards& afterwards) override;

  std::optional<Place> place() const override;
  double busy_seconds() const override;
  double still_seconds() const override;

  // Inside finished acts so far; on a device with a stream, of launching. Any thread.
  double seconds() const;
  // Device memory that it allocated beside the plan's.
  int64_t scratch_bytes() const;
  // Bytes that copies read so far from other ranks' memory, and that collectives received. Any thread.
  int64_t bytes_moved() const;
  // Time of instructions so far, by op; empty without `profile`. Any thread.
  std::vector<OpTime> op_times() const;

 private:
  class Impl;
  explicit Executor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace oneflow
