// Collectives that a device's communication library performs (NCCL on GPUs). On cpu devices boxing is copies, so nothing here is
// needed there: an engine without Collectives refuses plans with COLLECTIVE instructions when it loads them.
//
// The plan gives every communicator one total order of calls, which all its ranks follow; an implementation need not order
// anything itself.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/kernel.h"
#include "oneflow_core/sbp.h"
#include "oneflow_core/status.h"

namespace oneflow {

enum class CollectiveKind : uint8_t { kAllReduce, kReduceScatter, kAllGather, kBroadcast };

struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  Reduction reduction = Reduction::kSum;
  int communicator = 0;
  int rank = 0;  // of the job
  TensorArg in;  // `data` is set at every call
  TensorArg out;
  void* stream = nullptr;
};

class Collectives {
 public:
  virtual ~Collectives() = default;

  // Says at load that `call` will be made, on the thread that loads rank `call.rank`. Unimplemented if it cannot be.
  virtual absl::Status Prepare(const CollectiveCall& call, const std::vector<int>& ranks) = 0;
  // Launches it on the stream, on the rank's worker thread. Null, or which call failed.
  virtual const char* Launch(const CollectiveCall& call) = 0;
};

// InvalidArgument unless `name` is "all-reduce", "reduce-scatter", "all-gather" or "broadcast".
absl::StatusOr<CollectiveKind> ParseCollective(absl::string_view name);

}  // namespace oneflow
