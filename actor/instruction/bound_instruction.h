// An instruction of the plan, ready to run: its kernel, source or collective is known and its operands are addresses.
//
//   BindInstruction ──► compute     kernel, attributes, shapes    (one file each)
//                       copy        boxes between two tensors
//                       collective  a call of the communication library
//                       read        a data source
//                       fetch       values for the host
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/types/span.h"
#include "actor/act_runner.h"
#include "actor/collective/collectives.h"
#include "actor/data/source_cache.h"
#include "actor/engine.h"
#include "actor/instruction/operands.h"
#include "kernels/device.h"
#include "kernels/kernel.h"
#include "oneflow_core/op.h"
#include "oneflow_core/queues.h"

namespace oneflow {

class CountsOnHost;  // counts_on_host.h

// By plan: how many rows its sources read later than the number of a step says. Set between runs.
using RowShifts = std::map<std::string, std::atomic<int64_t>>;

// The context in which the instructions of one queue of a rank are bound; all of it is borrowed.
struct RankContext {
  const pb::Program& plans;
  const OpRegistry& ops;
  int rank = 0;
  int queue = MainQueue();
  DeviceContext& device;  // as that queue has it
  const JobMemory& memory;
  SourceCache& sources;
  const RowShifts* row_shifts = nullptr;         // null: none
  Collectives* collectives = nullptr;            // null: there are none
  CountsOnHost* counts = nullptr;                // of the rank; null: each reader of counts fetches them
  const std::function<void(Fetched)>& on_fetch;  // empty: values are dropped
  bool profile = false;                          // time every instruction
  bool capture = true;                           // launch captured work, where the device captures
  double emulated_ns_per_byte = 0;               // the least for reading other ranks' memory
};

// The act that an instruction runs in.
struct CurrentAct {
  int64_t step = 0;
  int64_t micro_batch = 0;
  void* scratch = nullptr;  // as large as the queue's instructions need beside the plan
  Afterwards& afterwards;   // work of a run that is done later
};

// A call of a kernel that takes several at once (Kernel::run_many).
struct JoinableCall {
  const Kernel* kernel = nullptr;
  KernelArgs args;                         // operands as they lie now
  absl::Span<const int> overwritten = {};  // of the inputs
};

class BoundInstruction {
 public:
  virtual ~BoundInstruction() = default;

  // On the queue's actor thread, after operands().MoveTo(). Internal, or the error of a source.
  virtual absl::Status Run(const CurrentAct& act) = 0;

  // Scratch memory that a run needs beside the plan's.
  virtual int64_t scratch_bytes() const { return 0; }
  // Device memory of its own, beside the plan's.
  virtual int64_t held_bytes() const { return 0; }
  // Bytes that a run takes from other ranks' memory or receives from them.
  virtual int64_t remote_bytes() const { return 0; }

  // Whether a run launches the same whenever its operands are the same and the micro-batch is or is not the first, and
  // does nothing else. A device that captures work may then keep it.
  virtual bool can_be_captured() const { return false; }
  // The only call of a run, if it may be joined with others (joined_calls.h).
  virtual std::optional<JoinableCall> joinable() const { return std::nullopt; }
  // Whether its kernel asks the device for the numbers of its act.
  virtual bool reads_act_numbers() const { return false; }

  // Whether its last run is launched; else a later instruction of its group launches it.
  virtual bool is_launched() const { return true; }

  Operands& operands() { return operands_; }
  const Operands& operands() const { return operands_; }

 protected:
  explicit BoundInstruction(Operands operands) : operands_(std::move(operands)) {}

  Operands operands_;
};

// Binds an instruction of an actor of the rank. InvalidArgument, with both values, if its op does not exist or does not
// take such operands; Unimplemented if the device has no kernel for it or for its shapes, cannot reach its operands, or
// has no such collective; else as OpenSource.
absl::StatusOr<std::unique_ptr<BoundInstruction>> BindInstruction(const RankContext& context, const pb::Plan& plan,
                                                                  const pb::Actor& actor,
                                                                  const pb::Instruction& instruction);

}  // namespace oneflow
