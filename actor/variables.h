// The variables of a job in this process: shards in the zones of its ranks, filled with initial values, and copied from
// and to logical tensors in weight files.
//
//   file (logical, row-major) ──Load──► every shard that covers it
//                             ◄──Save── the owners' shards, each process its own part
//   checkpoint (slices) ──LoadState──► every shard        owners' shards ──CopyState──► the copy that is written
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "actor/checkpoint/checkpoint_reader.h"
#include "actor/checkpoint/checkpoint_writer.h"
#include "actor/memory.h"
#include "kernels/device.h"
#include "oneflow_core/status.h"
#include "proto/program.pb.h"

namespace oneflow {

class Variables {
 public:
  // Everything is borrowed. `devices` has one entry per rank, null for those of other processes. REQUIRES: the plans
  // passed CheckProgram.
  Variables(const pb::Program& plans, const JobMemory& memory, std::vector<DeviceContext*> devices)
      : plans_(plans), memory_(memory), devices_(std::move(devices)) {}

  // Sets all shards of one of our ranks to their initial values. Different ranks may be set on different threads.
  absl::Status Initialise(int rank) const;

  // Fills our shards of all weights and statistics from the file. Those that the file declares to be fresh
  // (checkpoint/fresh_variables.h) keep their values. NotFound or InvalidArgument, naming file, tensor and both values,
  // if the file cannot be read, lacks another variable, has it in another dtype or shape, or has a tensor for no
  // variable.
  absl::Status Load(const std::string& path) const;

  // Writes the variables that `suffix` selects: "" weights and statistics, else those whose name ends with it (and
  // without it in the file); with averages of weights ("/average") statistics too. Every process calls it; `barrier`
  // returns when all have called it as often. The file appears under its name only when it is complete. NotFound if no
  // variable is selected.
  absl::Status Save(const std::string& path, absl::string_view suffix, int process,
                    const std::function<absl::Status()>& barrier) const;

  // The shards of all variables that this process owns, as its part of a checkpoint.
  absl::StatusOr<OwnedState> Owned() const;
  // Copies them, one behind the other in the order of Owned().
  absl::Status CopyState(char* to) const;
  // Lets `use` read them, each with the number of its elements; on devices with memory of their own, a copy of each.
  absl::Status ReadOwned(const std::function<void(const pb::Variable&, const char* data, int64_t count)>& use) const;
  // Fills the shards of one of our ranks. Different ranks may be filled on different threads. InvalidArgument naming
  // checkpoint, tensor and both values if a weight or the state of its optimizer is missing, or a variable is another
  // tensor there; errors of CheckpointReader::Read(). Other state that the checkpoint lacks keeps its initial value.
  absl::Status LoadState(const CheckpointReader& checkpoint, int rank) const;

 private:
  template <typename Fn>
  absl::Status ForOurShards(const pb::Variable& variable, const Fn& fn) const;
  template <typename Fn>
  absl::Status ForOwned(const pb::Variable& variable, const Fn& fn) const;
  std::vector<const pb::Variable*> BySize() const;

  const pb::Program& plans_;
  const JobMemory& memory_;
  const std::vector<DeviceContext*> devices_;
};

}  // namespace oneflow
