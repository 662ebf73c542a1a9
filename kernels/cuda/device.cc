// A CUDA device: memory, one stream on which everything happens in order, and events from a pool.
//
// The runtime calls from two sides: an actor thread, bound to the device, launches; while loading and saving, other
// threads allocate and copy. So whatever depends on the current device sets it for the length of the call. After an
// error of a kernel CUDA refuses every further call, which therefore reports it; only Done() cannot, and says yes, so
// that nobody waits for what will never come.
#include "kernels/device.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "kernels/copy.h"
#include "kernels/cuda/copy.h"

namespace oneflow {
namespace {

const char* ErrorText(cudaError_t error) { return error == cudaSuccess ? nullptr : cudaGetErrorString(error); }

// Makes a device current, until the end of the scope.
class CurrentDevice {
 public:
  explicit CurrentDevice(int index) {
    cudaGetDevice(&before_);
    cudaSetDevice(index);
  }
  CurrentDevice(const CurrentDevice&) = delete;
  ~CurrentDevice() { cudaSetDevice(before_); }

 private:
  int before_ = 0;
};

class CudaDevice final : public DeviceContext {
 public:
  // REQUIRES: the device is there. `*error` is null, or says what failed.
  CudaDevice(int index, const char** error) : index_(index), kernels_(CudaKernels()) {
    const CurrentDevice current(index_);
    *error = ErrorText(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }

  ~CudaDevice() override {
    const CurrentDevice current(index_);
    if (stream_ != nullptr) cudaStreamSynchronize(stream_);
    for (cudaEvent_t event : events_) cudaEventDestroy(event);
    for (void* area : areas_) cudaFree(area);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  const KernelTable& kernels() const override { return kernels_; }

  void* Allocate(size_t num_bytes) override {
    const CurrentDevice current(index_);
    num_bytes = std::max<size_t>(num_bytes, 1);
    void* data = nullptr;
    if (cudaMalloc(&data, num_bytes) != cudaSuccess) {
      cudaGetLastError();  // running out of memory is no error of a later launch
      return nullptr;
    }
    // On the stream, because it does not wait for the default stream, which cudaMemset would use.
    if (cudaMemsetAsync(data, 0, num_bytes, stream_) != cudaSuccess || cudaStreamSynchronize(stream_) != cudaSuccess) {
      cudaFree(data);
      return nullptr;
    }
    std::lock_guard<std::mutex> lock(mutex_);
    areas_.push_back(data);
    return data;
  }

  const char* CopyToHost(void* host, const void* device, size_t num_bytes) override {
    return CopyAndWait(host, device, num_bytes);
  }
  const char* CopyFromHost(void* device, const void* host, size_t num_bytes) override {
    return CopyAndWait(device, host, num_bytes);
  }
  bool host_accessible() const override { return false; }

  void* stream() override { return stream_; }
  void BindThread() override { cudaSetDevice(index_); }

  int RecordEvent() override {
    if (free_events_.empty()) {
      cudaEvent_t event = nullptr;
      cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
      free_events_.push_back(static_cast<int>(events_.size()));
      events_.push_back(event);
    }
    const int event = free_events_.back();
    free_events_.pop_back();
    cudaEventRecord(events_[event], stream_);
    return event;
  }
  bool Done(int event) override {
    if (cudaEventQuery(events_[event]) == cudaErrorNotReady) return false;
    free_events_.push_back(event);
    return true;
  }

  const char* CopyRegion(const CopyRegionArgs& args) override {
    cuda::Combine combine = cuda::Combine::kOverwrite;
    if (args.accumulate) {
      combine = args.reduce == Reduction::kSum   ? cuda::Combine::kSum
                : args.reduce == Reduction::kMax ? cuda::Combine::kMax
                                                 : cuda::Combine::kMin;
    }
    return cuda::Copy(
        stream_, {args.dtype, args.extent, args.source, args.source_stride, args.target, args.target_stride, combine});
  }
  const char* FillZero(void* target, size_t num_bytes) override {
    return num_bytes == 0 ? nullptr : ErrorText(cudaMemsetAsync(target, 0, num_bytes, stream_));
  }

 private:
  // Behind everything launched so far, which may still read or write the device's side.
  const char* CopyAndWait(void* to, const void* from, size_t num_bytes) {
    if (num_bytes == 0) return nullptr;
    const CurrentDevice current(index_);
    if (const char* error = ErrorText(cudaMemcpyAsync(to, from, num_bytes, cudaMemcpyDefault, stream_))) return error;
    return ErrorText(cudaStreamSynchronize(stream_));
  }

  const int index_;
  const KernelTable kernels_;
  cudaStream_t stream_ = nullptr;
  std::vector<cudaEvent_t> events_;  // actor thread only, as are the free ones
  std::vector<int> free_events_;     // indices into events_
  std::mutex mutex_;
  std::vector<void*> areas_;  // guarded by mutex_
};

}  // namespace

std::unique_ptr<DeviceContext> MakeCudaDevice(int index, std::string* why) {
  const std::string name = "cuda:" + std::to_string(index);
  const auto refuse = [&](const std::string& reason) {
    *why = name + ": " + reason;
    cudaGetLastError();
    return nullptr;
  };
  int count = 0;
  if (const char* error = ErrorText(cudaGetDeviceCount(&count))) return refuse(error);
  if (index < 0 || index >= count) return refuse("this host has " + std::to_string(count) + " cuda devices");
  const CurrentDevice current(index);
  if (const char* error = cuda::CheckKernelImage()) return refuse(std::string("its kernels cannot run: ") + error);
  const char* error = nullptr;
  auto device = std::make_unique<CudaDevice>(index, &error);
  if (error != nullptr) return refuse(error);
  return device;
}

}  // namespace oneflow
