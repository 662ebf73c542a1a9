// A CUDA device: memory, a stream on which everything is computed in order, events, and transfers beside it.
//
// The runtime calls from several sides: an actor thread, bound to the device, launches; another waits for events; while
// loading and saving, others allocate and copy. So whatever depends on the current device sets it for the length of the
// call. After an error of a kernel CUDA refuses every further call, which therefore reports it.
#include "kernels/device.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <vector>

#include "kernels/copy.h"
#include "kernels/cuda/act_numbers.h"
#include "kernels/cuda/copy.h"
#include "kernels/cuda/host_transfer.h"
#include "kernels/cuda/runtime.h"
#include "kernels/kernel.h"

namespace oneflow {
namespace {

using cuda::CurrentDevice;
using cuda::ErrorText;

// A graph of what was launched.
class CudaGraph final : public CapturedWork {
 public:
  explicit CudaGraph(cudaStream_t stream) : stream_(stream) {}
  ~CudaGraph() override {
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
  }

  // Ends the stream's capture.
  const char* EndCapture() {
    cudaGraph_t graph = nullptr;
    if (const char* error = ErrorText(cudaStreamEndCapture(stream_, &graph))) return error;
    const char* const error = ErrorText(cudaGraphInstantiate(&executable_, graph, 0));
    cudaGraphDestroy(graph);
    return error;
  }

  const char* Launch() override { return ErrorText(cudaGraphLaunch(executable_, stream_)); }

 private:
  const cudaStream_t stream_;
  cudaGraphExec_t executable_ = nullptr;
};

class CudaDevice final : public DeviceContext {
 public:
  explicit CudaDevice(int index) : index_(index), kernels_(CudaKernels()) {}

  // Waits for what was launched: whoever launched what waits for peers has told it to give up (Collectives::Abort).
  ~CudaDevice() override {
    const CurrentDevice current(index_);
    if (stream_ != nullptr) cudaStreamSynchronize(stream_);
    transfer_streams_.reset();
    events_.reset();
    for (cudaEvent_t event : {timing_begin_, timing_end_}) {
      if (event != nullptr) cudaEventDestroy(event);
    }
    for (void* area : areas_) cudaFree(area);
    for (void* area : host_areas_) cudaFreeHost(area);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  // REQUIRES: the device is there. Null, or which call failed.
  const char* Open(StreamPriority priority) {
    const CurrentDevice current(index_);
    if (current.error() != nullptr) return current.error();
    int least = 0, greatest = 0;
    if (const char* error = ErrorText(cudaDeviceGetStreamPriorityRange(&least, &greatest))) return error;
    const int number = priority == StreamPriority::kUrgent ? greatest : least;
    if (const char* error = ErrorText(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, number)))
      return error;
    events_.emplace();
    act_numbers_ = static_cast<ActNumbers*>(Allocate(sizeof(ActNumbers)));
    if (act_numbers_ == nullptr) return "no memory for the numbers of acts";
    return transfer_streams_.emplace(stream_).Create();
  }

  const KernelTable& kernels() const override { return kernels_; }

  void* Allocate(size_t num_bytes) override {
    const CurrentDevice current(index_);
    if (current.error() != nullptr) return nullptr;
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

  void* AllocateOnHost(size_t num_bytes) override {
    const CurrentDevice current(index_);
    if (current.error() != nullptr) return nullptr;
    void* data = nullptr;
    if (cudaHostAlloc(&data, std::max<size_t>(num_bytes, 1), cudaHostAllocPortable) != cudaSuccess) {
      cudaGetLastError();
      return nullptr;
    }
    std::memset(data, 0, num_bytes);
    std::lock_guard<std::mutex> lock(mutex_);
    host_areas_.push_back(data);
    return data;
  }

  const char* CopyToHost(void* host, const void* device, size_t num_bytes) override {
    return CopyAndWait(host, device, num_bytes);
  }
  const char* CopyFromHost(void* device, const void* host, size_t num_bytes) override {
    return CopyAndWait(device, host, num_bytes);
  }
  std::unique_ptr<HostTransfer> MakeTransfer(size_t num_bytes, void* between) override {
    const CurrentDevice current(index_);
    return cuda::MakeCudaTransfer(*transfer_streams_, *events_, num_bytes, between);
  }
  bool host_accessible() const override { return false; }

  void* stream() override { return stream_; }
  const char* BindThread() override { return ErrorText(cudaSetDevice(index_)); }

  const char* RecordEvent(int* event) override { return events_->Record(stream_, event); }
  const char* WaitEvent(int event) override { return events_->Wait(event); }
  // REQUIRES: `other` is a CUDA device too.
  const char* WaitBehind(DeviceContext& other, int event) override {
    return ErrorText(cudaStreamWaitEvent(stream_, static_cast<CudaDevice&>(other).events_->Get(event), 0));
  }
  void GiveBackEvent(int event) override { events_->GiveBack(event); }

  // Waiting awake: a thread that sleeps wakes up some 40 us late, which is longer than most kernels take.
  const char* BeginTiming() override {
    for (cudaEvent_t* const event : {&timing_begin_, &timing_end_}) {
      if (*event != nullptr) continue;
      if (const char* error = ErrorText(cudaEventCreateWithFlags(event, cudaEventDefault))) return error;
    }
    return ErrorText(cudaEventRecord(timing_begin_, stream_));
  }
  const char* EndTiming(double* seconds) override {
    float milliseconds = 0;
    const char* error = ErrorText(cudaEventRecord(timing_end_, stream_));
    if (error == nullptr) error = ErrorText(cudaEventSynchronize(timing_end_));
    if (error == nullptr) error = ErrorText(cudaEventElapsedTime(&milliseconds, timing_begin_, timing_end_));
    *seconds = 1e-3 * milliseconds;
    return error;
  }

  // Other threads may call what CUDA does not let a capturing thread call.
  bool captures() const override { return true; }
  const char* BeginCapture() override {
    return ErrorText(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  }
  const char* EndCapture(std::unique_ptr<CapturedWork>* work) override {
    auto graph = std::make_unique<CudaGraph>(stream_);
    if (const char* error = graph->EndCapture()) {
      cudaGetLastError();  // it is reported here, and no error of a later call
      return error;
    }
    *work = std::move(graph);
    return nullptr;
  }

  const ActNumbers* act_numbers() override { return act_numbers_; }
  const char* SetActNumbers(const ActNumbers& numbers) override {
    return cuda::WriteActNumbers(stream_, numbers, act_numbers_);
  }

  const char* CopyRegion(const CopyRegionArgs& args) override {
    if (!args.addends.empty()) return "CopyRegion: addends are for devices whose memory the host can address";
    return cuda::Copy(stream_, BoxOf(args));
  }
  const char* CopyRows(const CopyRowsArgs& args) override {
    return cuda::CopyRows(stream_, {BoxOf(args.box), args.rows, args.counts, args.source_packed, args.target_packed});
  }
  const char* Move(void* to, const void* from, size_t num_bytes) override {
    return ErrorText(cudaMemcpyAsync(to, from, num_bytes, cudaMemcpyDefault, stream_));
  }

  const char* FillZero(void* target, size_t num_bytes) override {
    return num_bytes == 0 ? nullptr : ErrorText(cudaMemsetAsync(target, 0, num_bytes, stream_));
  }

 private:
  static cuda::BoxCopy BoxOf(const CopyRegionArgs& args) {
    cuda::Combine combine = cuda::Combine::kOverwrite;
    if (args.accumulate) {
      combine = args.reduce == Reduction::kSum   ? cuda::Combine::kSum
                : args.reduce == Reduction::kMax ? cuda::Combine::kMax
                                                 : cuda::Combine::kMin;
    }
    return {args.dtype, args.extent, args.source, args.source_stride, args.target, args.target_stride, combine};
  }

  // Behind everything launched so far, which may still read or write the device's side.
  const char* CopyAndWait(void* to, const void* from, size_t num_bytes) {
    if (num_bytes == 0) return nullptr;
    const CurrentDevice current(index_);
    if (current.error() != nullptr) return current.error();
    if (const char* error = ErrorText(cudaMemcpyAsync(to, from, num_bytes, cudaMemcpyDefault, stream_))) return error;
    return ErrorText(cudaStreamSynchronize(stream_));
  }

  const int index_;
  const KernelTable kernels_;
  cudaStream_t stream_ = nullptr;
  ActNumbers* act_numbers_ = nullptr;  // on the device
  cudaEvent_t timing_begin_ = nullptr, timing_end_ = nullptr;
  std::optional<cuda::EventPool> events_;
  std::optional<cuda::TransferStreams> transfer_streams_;
  std::mutex mutex_;
  std::vector<void*> areas_, host_areas_;  // guarded by mutex_
};

}  // namespace

std::optional<DeviceMemory> CudaMemory(int index, std::string* why) {
  const auto refuse = [&](const char* reason) {
    *why = "cuda:" + std::to_string(index) + ": " + reason;
    cudaGetLastError();
    return std::nullopt;
  };
  const CurrentDevice current(index);
  if (current.error() != nullptr) return refuse(current.error());
  size_t free = 0, total = 0;
  if (const char* error = ErrorText(cudaMemGetInfo(&free, &total))) return refuse(error);
  return DeviceMemory{static_cast<int64_t>(free), static_cast<int64_t>(total)};
}

std::unique_ptr<DeviceContext> MakeCudaDevice(int index, std::string* why, StreamPriority priority) {
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
  if (current.error() != nullptr) return refuse(current.error());
  if (const char* error = cuda::CheckKernelImage()) return refuse(std::string("its kernels cannot run: ") + error);
  auto device = std::make_unique<CudaDevice>(index);
  if (const char* error = device->Open(priority)) return refuse(error);
  return device;
}

}  // namespace oneflow
