// What NCCL's calls do on a stream.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "test/support/cuda/nccl_communicator.h"
#include "test/support/cuda/nccl_transfer.h"

namespace oneflow::software_cuda {

struct Call {
  CallHeader header;
  const void* in = nullptr;
  void* out = nullptr;
  uint64_t number = 0;  // in the communicator's order, from 1
};

bool IsExchange(const Call& call);

// Puts calls on the stream as one piece of work: collectives in their order, then sends and receives all at once.
// ncclUnhandledCudaError if the device has failed.
ncclResult_t LaunchCalls(std::shared_ptr<Communicator> communicator, cudaStream_t stream, std::vector<Call> calls);

}  // namespace oneflow::software_cuda
