// Host transfers of a CUDA device: pinned memory, and a stream for each direction.
#pragma once

#include <memory>

#include "kernels/cuda/runtime.h"
#include "kernels/host_transfer.h"

namespace oneflow::cuda {

// The streams that a device's transfers share. There are two: a fetched value waits until it is computed, and the input
// of the next step must not wait behind it.
class TransferStreams {
 public:
  explicit TransferStreams(cudaStream_t compute) : compute_(compute) {}
  TransferStreams(const TransferStreams&) = delete;
  ~TransferStreams();

  // REQUIRES: the device is current. Null, or which call failed.
  const char* Create();

  cudaStream_t compute() const { return compute_; }
  cudaStream_t to_device() const { return to_device_; }
  cudaStream_t to_host() const { return to_host_; }

 private:
  const cudaStream_t compute_;
  cudaStream_t to_device_ = nullptr, to_host_ = nullptr;
};

// As DeviceContext::MakeTransfer. `streams` and `events` must outlive it. REQUIRES: the device is current.
std::unique_ptr<HostTransfer> MakeCudaTransfer(const TransferStreams& streams, EventPool& events, size_t num_bytes,
                                               void* between);

}  // namespace oneflow::cuda
