// Does the work of the acts of one queue of a rank: binds the plan's instructions once, at load, so that an act only
// moves operands to the slots it uses and calls functions.
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
  // As BindInstruction, with plan, actor, node, source line, rank and device; ResourceExhausted if scratch memory
  // cannot be had.
  static absl::StatusOr<std::unique_ptr<Executor>> Create(const RankContext& context);
  ~Executor() override;

  // On the queue's actor thread, before its first act. These run once what a step launches, on whatever lies in the
  // first slots of its registers, and leave that in any state: everything that computes or copies within the rank, and
  // then the collectives, in the plan's order; but nothing that counts of ragged rows decide. What libraries do when
  // they are called first (kernels are loaded, handles made, peers connected) is done then, and no kernel has to be
  // loaded, which may wait for the device, while a collective waits for peers there. They return when all is launched.
  // Errors as of RunAct().
  absl::Status WarmUp();
  absl::Status WarmUpCollectives();

  // On the queue's actor thread. Internal, or what a source says, annotated as above.
  absl::Status RunAct(const Actor& actor, Afterwards& afterwards) override;

  std::optional<Place> place() const override;
  double busy_seconds() const override;
  double still_seconds() const override;

  // Inside acts so far that have ended; on a device with a stream, of launching. Any thread.
  double seconds() const;
  // Memory of the device that it took beside the plan's.
  int64_t scratch_bytes() const;
  // Read so far from other ranks' memory by copies, or received in collectives. Any thread.
  int64_t bytes_moved() const;
  // What instructions took so far, by op; empty without `profile`. Any thread.
  std::vector<OpTime> op_times() const;

 private:
  class Impl;
  explicit Executor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace oneflow
