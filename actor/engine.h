// The runtime of one process: executes the plans of a job on the ranks that this process serves.
//
// An actor thread serves each queue of a rank's device; where a device has streams, one launches for several. Ranks of
// this process read each other's registers in place. So do ranks of other processes of the host, through shared memory,
// in which `filled` and `freed` travel too. Data of ranks on other hosts is sent here with `filled`, over the data
// channel. The engine knows plans, not graphs or SBP.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "oneflow_core/status.h"
#include "proto/program.pb.h"
#include "proto/waits.pb.h"

namespace oneflow {

class CheckpointReader;  // actor/checkpoint/checkpoint_reader.h
class Collectives;       // actor/collective/collectives.h
class DeviceContext;     // kernels/device.h
class OpRegistry;        // oneflow_core/op.h
class PeerNetwork;       // actor/transport/peer_network.h
struct Device;           // oneflow_core/mesh.h
struct OwnedState;       // actor/checkpoint/checkpoint_writer.h

// A value that a plan handed to the host, converted to doubles (losses, token ids, norms).
struct Fetched {
  std::string plan;
  std::string name;
  int64_t step = 0;  // numbered as in Run()
  std::vector<double> values;
  std::optional<double> weight;  // of each value in a mean over several; none: all count alike
};

// The time of the instructions of one op, since creation, all ranks of this process together.
struct OpTime {
  std::string op;  // kernel name, or "copy", "collective", "read", "fetch"
  int64_t calls = 0;
  double seconds = 0;  // of kernels, on a device with a stream too; of its collectives and copies, of launching
};

// The default time after which a run without progress is reported. Acts take seconds at most on machines that their
// model is meant for.
inline constexpr double kStallSeconds = 60;

// Devices that do not hang finish in a second or two after their collectives were aborted.
inline constexpr double kEndSeconds = 10;

struct EngineOptions {
  int process = 0;
  // Cores that this process may use, shared equally among its cpu devices (at least one each).
  int cores = 1;
  // Borrowed; null: the standard ones.
  const OpRegistry* ops = nullptr;
  // Called once per fetch, on a thread of its rank's host queue; must be quick.
  std::function<void(Fetched)> on_fetch;
  // Borrowed, connected to all other processes of the job; null for a job of one process.
  PeerNetwork* peers = nullptr;
  // Borrowed; null: plans with collectives are refused.
  Collectives* collectives = nullptr;
  // Times every instruction for EngineStats::ops. Costs two reads of the clock each; nothing if false. On a device with
  // a stream the thread waits after each kernel: the times are those of the kernels, one after the other.
  bool profile = false;
  // Where devices capture work, repeated launches become one; not if false, nor while every instruction is timed.
  bool capture = true;
  // Memory for the last acts of this process' ranks, which SaveTrace() writes; 0: acts are not recorded.
  int64_t trace_bytes = 0;
  // Where ranks of which something lies on disk have their files; empty: the folder for temporary files ($TMPDIR, else
  // /var/tmp).
  std::string tier_folder;
  // If no act of this process has ended for this long during a run, the waits at that moment are reported, on the
  // thread of Run(); again only after progress. Empty: they are logged.
  double stall_seconds = kStallSeconds;
  std::function<void(pb::ProcessWaits)> on_stall;
  // After an error the engine waits for its devices when it is destroyed (in Create() if that fails). If they do not
  // finish in time, because a kernel hangs, only the end of the process helps: `on_stuck` is called with the error, on
  // a thread of its own, and must end it. Empty: the error goes to stderr, and the process ends with 1.
  double end_seconds = kEndSeconds;
  std::function<void(const absl::Status&)> on_stuck;
  // For experiments on cpu devices: reading another rank's memory takes at least this long per byte.
  double emulated_ns_per_byte = 0;
  // Opens a device that may use `cores` cores; empty: the devices of this host. Unavailable if there is no such device.
  std::function<absl::StatusOr<std::unique_ptr<DeviceContext>>(const Device& device, int cores)> open_device;
};

// Data moved and memory held, counted at run time.
struct EngineStats {
  int64_t bytes_moved = 0;  // read by boxing from another rank's memory, by the ranks of this process
  int64_t bytes_sent = 0;   // of these, sent by this process to other hosts
  int64_t acts = 0;
  double kernel_seconds = 0;         // inside instructions that compute, summed over ranks
  double wall_seconds = 0;           // inside Run(), summed over ranks
  double run_seconds = 0;            // of compute: each rank from the grant of a run to its own end of it
  double idle_seconds = 0;           // of these, asleep for want of messages
  double communication_seconds = 0;  // inside boxings, summed over ranks
  int64_t register_bytes = 0;        // memory held for registers and variables, all ranks of this process
  int64_t scratch_bytes = 0;         // of kernels that need more than the plan has
  std::vector<OpTime> ops;           // ordered by name; empty without EngineOptions::profile
};

class Engine {
 public:
  virtual ~Engine() = default;

  // Checks the plan set (InvalidArgument with where and both values: a plan may come from a file or a peer), allocates
  // memory, checks that every op takes its operands, prepares kernels, exchanges plan hash and shared memory with the
  // peers, sets variables to their initial values. Unimplemented if a device has no kernel for an instruction,
  // ResourceExhausted if memory does not suffice.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(pb::Program plan, EngineOptions options);

  // Runs the steps first_step .. first_step + steps - 1 of the named plan to the end on all ranks of this process. The
  // number of a step decides which data is read and which random numbers are drawn. The other processes must make the
  // same calls in the same order. The first error of any rank ends it everywhere: the root cause where it happened,
  // Aborted elsewhere; afterwards the engine can only be destroyed.
  virtual absl::Status Run(absl::string_view plan, int64_t first_step, int64_t steps) = 0;

  // Lets a plan that may run beside others (Plan.beside) do so, and returns; any other plan is run as by Run(). The
  // process may make any other calls meanwhile but those that look at what the plan reads or writes: between them is
  // WaitBeside(), which returns when the run has ended in this process, or with the first error. One such run at a
  // time; all processes make the same calls in the same order.
  virtual absl::Status RunBeside(absl::string_view plan, int64_t first_step, int64_t steps) = 0;
  virtual absl::Status WaitBeside() = 0;

  // From now on the sources of this plan read this many rows (samples of batches) later than the number of a step says,
  // or earlier if negative: for earlier steps with batches of another size. Between runs; the same in all processes.
  // Without effect if there is no such plan.
  virtual void ShiftRows(absl::string_view plan, int64_t rows) = 0;

  // Makes a running or future Run() return `status`, and tells the peers. Any thread.
  virtual void Abort(absl::Status status) = 0;

  // Reads variables from (writes them to) a safetensors file of logical tensors by name; every process must call it
  // with the same arguments. `suffix` selects: "" weights and statistics, ".grad" kept gradients, "/average" averages
  // of weights, and statistics (names without the suffix). Loading fails if a weight or a statistic is missing, has
  // another dtype or shape, or the file has tensors for no variable.
  virtual absl::Status LoadWeights(const std::string& path) = 0;
  virtual absl::Status SaveWeights(const std::string& path, absl::string_view suffix) = 0;

  // The state of the job between runs: the part that this process owns, as its part of a checkpoint
  // (actor/checkpoint/checkpoint_writer.h), and a copy of it. Copying fails with the error of the first failed run: its
  // steps were not committed.
  virtual absl::StatusOr<OwnedState> Owned() = 0;
  virtual absl::Status CopyState(char* to) = 0;
  // Lets `use` read that part in place, shard by shard; between runs too, and with the same errors.
  virtual absl::Status ReadOwned(
      const std::function<void(const pb::Variable& variable, const char* data, int64_t count)>& use) = 0;
  // Fills this process' shards of all variables from a checkpoint; state that it lacks keeps its value. An error ends
  // nothing: processes tell each other, and may try another one. None may run before all have loaded. InvalidArgument
  // if it is of another model, DataLoss if it is damaged.
  virtual absl::Status LoadState(const CheckpointReader& checkpoint) = 0;
  // The notes of all processes, by process, once all have given one. Errors of PeerNetwork::Barrier().
  virtual absl::StatusOr<std::vector<std::string>> Exchange(const std::string& note) = 0;

  // Writes the recent acts of the ranks of all processes to one file (actor/trace/); every process must call it with
  // the same path, which all of them see. FailedPrecondition if acts are not recorded.
  virtual absl::Status SaveTrace(const std::string& path) = 0;

  // The state and waits of the ranks of this process (actor/diagnosis.h); watches them for a fraction of a second. Any
  // thread.
  virtual pb::ProcessWaits Waits() = 0;

  // Since creation.
  virtual EngineStats stats() const = 0;
};

}  // namespace oneflow
