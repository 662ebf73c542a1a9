// Collectives that a device's communication library performs (NCCL on GPUs). On cpu devices boxing is copies, so
// nothing here is needed there: an engine without Collectives refuses plans with COLLECTIVE instructions when it loads
// them.
//
// The plan gives every communicator one total order of calls, which all its ranks follow; an implementation need not
// order anything itself.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernel.h"
#include "oneflow_core/sbp.h"
#include "oneflow_core/status.h"

namespace oneflow {

enum class CollectiveKind : uint8_t { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kExchange };

// What one member of an exchange sends to another, from its input, and receives from it, into its output; in elements.
struct PeerTransfer {
  int peer = 0;  // position in the communicator; never the own one
  int64_t send_offset = 0;
  int64_t send_count = 0;  // 0: nothing; so for receive_count
  int64_t receive_offset = 0;
  int64_t receive_count = 0;
};

// The position of a rank in its communicator says which part it gives to an all-gather or gets from a reduce-scatter. A
// broadcast comes from position 0; other members' `in` is their `out`, and the first member's `out` is its `in` if it
// wants no copy.
struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  Reduction reduction = Reduction::kSum;
  int communicator = 0;
  int rank = 0;  // of the job
  TensorArg in;  // `data` is set at every call; of an exchange that sends (receives) nothing: empty
  TensorArg out;
  std::span<const PeerTransfer> transfers;  // kExchange: at most one per peer, by ascending position
  void* stream = nullptr;
  // Further calls on the communicator follow, and this one is launched with them: what it reads and writes is theirs
  // until then, and all members launch the same calls together.
  bool more_follow = false;
};

class Collectives {
 public:
  virtual ~Collectives() = default;

  // Says at load that `call` will be made, on the thread that loads rank `call.rank`. Unimplemented if it cannot be.
  virtual absl::Status Prepare(const CollectiveCall& call, const std::vector<int>& ranks) = 0;
  // Launches it on the stream, on the rank's actor thread, with those before it that more were to follow. Null, or
  // which call failed.
  virtual const char* Launch(const CollectiveCall& call) = 0;
  // What a communicator met after its calls were launched, such as a peer that is gone; its calls may wait for ever
  // then. Costs little; any thread.
  virtual absl::Status Check() = 0;
  // Lets no call wait for its peers any longer: those that were launched end soon, with nothing said of their results,
  // and later ones fail. Waits for nothing. Any thread.
  virtual void Abort() = 0;
};

// Whether the operands' sizes and types fit the call, made among `ranks`. InvalidArgument if its peers or types do not
// fit one another, Unimplemented for unequal shares, and for bool that is to be reduced.
absl::Status CheckCall(const CollectiveCall& call, const std::vector<int>& ranks);

// InvalidArgument unless `name` is "all-reduce", "reduce-scatter", "all-gather", "broadcast" or "exchange".
absl::StatusOr<CollectiveKind> ParseCollective(absl::string_view name);

}  // namespace oneflow
