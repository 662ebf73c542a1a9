#include "kernels/cuda/host_transfer.h"

#include <algorithm>

namespace oneflow::cuda {
namespace {

class CudaTransfer final : public HostTransfer {
 public:
  CudaTransfer(const TransferStreams& streams, EventPool& events, void* between)
      : streams_(streams), events_(events), between_(static_cast<char*>(between)) {}
  ~CudaTransfer() override {
    cudaStreamSynchronize(streams_.to_device());
    cudaStreamSynchronize(streams_.to_host());
    for (char* slot : slots_) cudaFreeHost(slot);
    cudaFree(own_);
    for (cudaEvent_t event : {slot_read_[0], slot_read_[1], filled_, free_}) {
      if (event != nullptr) cudaEventDestroy(event);
    }
  }

  bool Allocate(size_t num_bytes) {
    num_bytes_ = std::max<size_t>(num_bytes, 1);
    for (char*& slot : slots_) {
      if (cudaHostAlloc(reinterpret_cast<void**>(&slot), num_bytes_, cudaHostAllocPortable) != cudaSuccess)
        return false;
    }
    constexpr unsigned kFlags = cudaEventDisableTiming | cudaEventBlockingSync;
    for (cudaEvent_t* event : {&slot_read_[0], &slot_read_[1], &filled_, &free_}) {
      if (cudaEventCreateWithFlags(event, kFlags) != cudaSuccess) return false;
    }
    if (between_ != nullptr) return true;
    if (cudaMalloc(&own_, num_bytes_) != cudaSuccess) return false;
    between_ = own_;
    return true;
  }

  // An event that was never recorded has come.
  const char* WaitForSlot(int slot) override { return ErrorText(cudaEventSynchronize(slot_read_[slot])); }
  char* slot(int slot) override { return slots_[slot]; }

  const char* ToDevice(void* device, int slot, size_t num_bytes) override {
    if (num_bytes == 0) return nullptr;
    const cudaStream_t compute = streams_.compute(), bus = streams_.to_device();
    return FirstError({cudaStreamWaitEvent(bus, free_, 0),
                       cudaMemcpyAsync(between_, slots_[slot], num_bytes, cudaMemcpyHostToDevice, bus),
                       cudaEventRecord(slot_read_[slot], bus), cudaStreamWaitEvent(compute, slot_read_[slot], 0),
                       cudaMemcpyAsync(device, between_, num_bytes, cudaMemcpyDeviceToDevice, compute),
                       cudaEventRecord(free_, compute)});
  }

  const char* ToHost(int slot, const void* device, size_t num_bytes, int* event) override {
    const cudaStream_t compute = streams_.compute(), bus = streams_.to_host();
    if (num_bytes > 0) {
      const char* const error =
          FirstError({cudaStreamWaitEvent(compute, free_, 0),
                      cudaMemcpyAsync(between_, device, num_bytes, cudaMemcpyDeviceToDevice, compute),
                      cudaEventRecord(filled_, compute), cudaStreamWaitEvent(bus, filled_, 0),
                      cudaMemcpyAsync(slots_[slot], between_, num_bytes, cudaMemcpyDeviceToHost, bus),
                      cudaEventRecord(free_, bus)});
      if (error != nullptr) return error;
    }
    return events_.Record(bus, event);
  }

  size_t device_bytes() const override { return own_ == nullptr ? 0 : num_bytes_; }

 private:
  // Of calls made in the order of the list.
  static const char* FirstError(std::initializer_list<cudaError_t> results) {
    for (const cudaError_t result : results) {
      if (result != cudaSuccess) return ErrorText(result);
    }
    return nullptr;
  }

  const TransferStreams& streams_;
  EventPool& events_;
  size_t num_bytes_ = 0;
  char* slots_[kSlots] = {};  // pinned
  char* between_;             // on the device
  char* own_ = nullptr;       // the same, if nobody gave it
  cudaEvent_t slot_read_[kSlots] = {};
  cudaEvent_t filled_ = nullptr, free_ = nullptr;  // of between_
};

}  // namespace

const char* TransferStreams::Create() {
  if (const char* error = ErrorText(cudaStreamCreateWithFlags(&to_device_, cudaStreamNonBlocking))) return error;
  return ErrorText(cudaStreamCreateWithFlags(&to_host_, cudaStreamNonBlocking));
}

TransferStreams::~TransferStreams() {
  if (to_device_ != nullptr) cudaStreamDestroy(to_device_);
  if (to_host_ != nullptr) cudaStreamDestroy(to_host_);
}

std::unique_ptr<HostTransfer> MakeCudaTransfer(const TransferStreams& streams, EventPool& events, size_t num_bytes,
                                               void* between) {
  auto transfer = std::make_unique<CudaTransfer>(streams, events, between);
  if (transfer->Allocate(num_bytes)) return transfer;
  cudaGetLastError();  // running out of memory is no error of a later launch
  return nullptr;
}

}  // namespace oneflow::cuda
