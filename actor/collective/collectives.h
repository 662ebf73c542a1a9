// Collectives of a device's communication library (NCCL on GPUs). On cpu devices boxing is copies and needs none: an
// engine without Collectives refuses plans with COLLECTIVE instructions when it loads them.
//
// The plan gives every communicator one total order of calls, which all its ranks follow; an implementation need not
// order anything itself.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/tensor_arg.h"
#include "oneflow_core/sbp.h"
#include "oneflow_core/status.h"

namespace oneflow {

enum class CollectiveKind : uint8_t { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kExchange };

// The data that one member of an exchange sends to another, from its input, and receives from it, into its output; in
// elements.
struct PeerTransfer {
  int peer = 0;  // position in the communicator; never the own one
  int64_t send_offset = 0;
  int64_t send_count = 0;  // 0: nothing; so for receive_count
  int64_t receive_offset = 0;
  int64_t receive_count = 0;
};

// The position of a rank in its communicator is its part of an all-gather or a reduce-scatter. A broadcast comes from
// position 0; other members' `in` is their `out`, and the first member's `out` is its `in` if it wants no copy.
struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  Reduction reduction = Reduction::kSum;
  int communicator = 0;
  int rank = 0;  // of the job
  TensorArg in;  // `data` is set at every call; of an exchange that sends (receives) nothing: empty
  TensorArg out;
  std::span<const PeerTransfer> transfers;  // kExchange: at most one per peer, by ascending position
  void* stream = nullptr;
  // Further calls on the communicator follow, and this one is launched with them. Its memory stays in use until then,
  // and all members launch the same calls together.
  bool more_follow = false;
};

class Collectives {
 public:
  virtual ~Collectives() = default;

  // Announces `call` at load, on the thread that loads rank `call.rank`. Unimplemented if it is impossible.
  virtual absl::Status Prepare(const CollectiveCall& call, const std::vector<int>& ranks) = 0;
  // Launches it on the stream, on the rank's actor thread, together with the calls before it whose `more_follow` was
  // set. Null, or which call failed.
  virtual const char* Launch(const CollectiveCall& call) = 0;
  // An error of a communicator after its calls were launched, such as a lost peer; its calls may then wait for ever.
  // Costs little; any thread.
  virtual absl::Status Check() = 0;
  // Lets no call wait for its peers any longer: launched ones end soon with undefined results, and later ones fail.
  // Waits for nothing. Any thread.
  virtual void Abort() = 0;
};

// Whether the sizes and types of the operands fit the call, made among `ranks`. InvalidArgument if its peers or types
// do not fit one another, Unimplemented for unequal shares, and for reductions of bool.
absl::Status CheckCall(const CollectiveCall& call, const std::vector<int>& ranks);

// InvalidArgument unless `name` is "all-reduce", "reduce-scatter", "all-gather", "broadcast" or "exchange".
absl::StatusOr<CollectiveKind> ParseCollective(absl::string_view name);

}  // namespace oneflow
