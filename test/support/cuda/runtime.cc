// The CUDA runtime on software devices: devices, memory, copies, streams, events. Launches are in launch.cc.
#include <cuda_runtime.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "test/support/cuda/graph.h"
#include "test/support/cuda/memory.h"
#include "test/support/cuda/software_device.h"
#include "test/support/cuda/system.h"

namespace oneflow::software_cuda {
namespace {

// Where both ends of a copy are, or an error: what is on a device lies in one allocation, and `kind` says so too.
struct Ends {
  bool from_device = false, to_device = false;
};
cudaError_t FindEnds(const void* to, const void* from, size_t bytes, cudaMemcpyKind kind, Ends* ends) {
  *ends = {IsDeviceAddress(from), IsDeviceAddress(to)};
  if ((ends->from_device && !IsIn(from, bytes)) || (ends->to_device && !IsIn(to, bytes))) return cudaErrorInvalidValue;
  const bool from_said = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  const bool to_said = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  if (kind == cudaMemcpyDefault) return cudaSuccess;
  return from_said == ends->from_device && to_said == ends->to_device ? cudaSuccess : cudaErrorInvalidValue;
}
// What calls on the current device begin with.
cudaError_t CheckContext() {
  if (current_device >= System::Get().num_devices()) return cudaErrorNoDevice;
  return System::Get().MakeContext(current_device) ? cudaSuccess : cudaErrorMemoryAllocation;
}
}  // namespace

cudaError_t Malloc(void** data, size_t bytes) {
  *data = nullptr;
  if (const cudaError_t error = CheckContext(); error != cudaSuccess) return Answer(error);
  if (const cudaError_t error = Captures::Get().Unsafe(); error != cudaSuccess) return Answer(error);
  if (bytes == 0) return Answer(cudaSuccess);
  char* const memory = AllocateOn(current_device, bytes);
  if (memory == nullptr) return Answer(cudaErrorMemoryAllocation);
  *data = memory;
  AdmitThread();
  std::memset(memory, 0xa5, bytes);  // what was there before, which is not zeros
  AdmitThread(false);
  return Answer(cudaSuccess);
}
}  // namespace oneflow::software_cuda

namespace cuda = oneflow::software_cuda;

extern "C" {

cudaError_t cudaGetLastError() {
  const cudaError_t error = std::exchange(cuda::last_error, cudaSuccess);
  const cudaError_t now = cuda::Answer(error);
  if (now == error) cuda::last_error = cudaSuccess;
  return now;
}
cudaError_t cudaPeekAtLastError() { return cuda::Answer(cuda::last_error); }

cudaError_t cudaGetDeviceCount(int* count) {
  *count = cuda::System::Get().num_devices();
  return cuda::Answer(*count == 0 ? cudaErrorNoDevice : cudaSuccess);
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= cuda::System::Get().num_devices()) return cuda::Answer(cudaErrorInvalidDevice);
  *properties = {};
  std::strcpy(properties->name, "software");
  return cuda::Answer(cudaSuccess);
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13'000;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  const int count = cuda::System::Get().num_devices();
  if (count == 0) return cuda::Answer(cudaErrorNoDevice);
  if (device < 0 || device >= count) return cuda::Answer(cudaErrorInvalidDevice);
  cuda::current_device = device;
  return cuda::Answer(cuda::CheckContext());
}
cudaError_t cudaGetDevice(int* device) {
  *device = cuda::current_device;
  return cuda::Answer(cuda::System::Get().num_devices() == 0 ? cudaErrorNoDevice : cudaSuccess);
}
cudaError_t cudaDeviceSynchronize() {
  for (const auto& stream : cuda::System::Get().StreamsOf(cuda::current_device)) {
    const cudaError_t error = cuda::Captures::Get().Await(stream.get());
    if (error != cudaSuccess) return cuda::Answer(error);
  }
  cuda::System::Get().WaitForDevice(cuda::current_device);
  return cuda::Answer(cudaSuccess);
}

cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned) {
  if (const cudaError_t error = cuda::Captures::Get().Unsafe(); error != cudaSuccess) return cuda::Answer(error);
  void* const memory =
      mmap(nullptr, std::max<size_t>(bytes, 1), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return cuda::Answer(cudaErrorMemoryAllocation);
  cuda::System::Get().Pin(static_cast<char*>(memory), bytes);
  *data = memory;
  return cuda::Answer(cudaSuccess);
}
cudaError_t cudaFreeHost(void* data) {
  if (data == nullptr) return cuda::Answer(cudaSuccess);
  if (const cudaError_t error = cuda::Captures::Get().Unsafe(); error != cudaSuccess) return cuda::Answer(error);
  const std::optional<size_t> bytes = cuda::System::Get().Unpin(static_cast<char*>(data));
  if (!bytes.has_value()) return cuda::Answer(cudaErrorInvalidValue);
  for (int device = 0; device < cuda::System::Get().num_devices(); ++device) {  // whose work may still use it
    cuda::System::Get().WaitForDevice(device);
  }
  munmap(data, std::max<size_t>(*bytes, 1));
  return cuda::Answer(cudaSuccess);
}
// Waits for the device, whose work may still use it.
cudaError_t cudaFree(void* data) {
  if (data == nullptr) return cuda::Answer(cudaSuccess);
  if (const cudaError_t error = cuda::Captures::Get().Unsafe(); error != cudaSuccess) return cuda::Answer(error);
  const auto allocation = cuda::FindAllocation(data);
  if (!allocation.has_value() || allocation->bytes.begin != data) return cuda::Answer(cudaErrorInvalidValue);
  cuda::System::Get().WaitForDevice(allocation->device);
  cuda::FreeOn(allocation->device, data);
  return cuda::Answer(cudaSuccess);
}
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  if (const cudaError_t error = cuda::CheckContext(); error != cudaSuccess) return cuda::Answer(error);
  *total_bytes = cuda::BytesOf(cuda::current_device);
  *free_bytes = *total_bytes - cuda::BytesInUse(cuda::current_device);
  return cuda::Answer(cudaSuccess);
}

// From pageable memory the bytes are taken at once; to pageable memory the call waits until they are there. A captured
// copy does neither: its ends are read and written whenever the graph runs.
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (bytes == 0) return cuda::Answer(cudaSuccess);
  cuda::Ends ends;
  if (const cudaError_t error = cuda::FindEnds(to, from, bytes, kind, &ends); error != cudaSuccess)
    return cuda::Answer(error);
  cuda::System& system = cuda::System::Get();
  CUstream_st* const on = cuda::Resolve(stream);
  const bool runs = on == nullptr || cuda::Captures::Get().StatusOf(on) == cudaStreamCaptureStatusNone;
  const bool staged = runs && !ends.from_device && !system.IsPinned(static_cast<const char*>(from), bytes);
  const bool waits = runs && !ends.to_device && !system.IsPinned(static_cast<const char*>(to), bytes);
  system.CountLaunch({.copies_to_host = ends.from_device && !ends.to_device});
  std::shared_ptr<char[]> stage;
  if (staged) {
    stage.reset(new char[bytes]);
    std::memcpy(stage.get(), from, bytes);
  }
  const cudaError_t error = cuda::Enqueue(stream, "cudaMemcpyAsync", [=] {
    const void* const source = staged ? stage.get() : from;
    std::vector<cuda::Operand> operands;
    if (ends.from_device) operands.push_back({"the source", source, bytes, false, true});
    if (ends.to_device) operands.push_back({"the target", to, bytes, true, true});
    if (!cuda::CheckOperands(operands)) return;
    std::memmove(to, source, bytes);
  });
  return error == cudaSuccess && waits ? cudaStreamSynchronize(stream) : error;
}
cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return cuda::Answer(cudaSuccess);
  if (!cuda::IsIn(data, bytes)) return cuda::Answer(cudaErrorInvalidValue);
  return cuda::Enqueue(stream, "cudaMemsetAsync", [=] {
    if (cuda::CheckOperands({{"the target", data, bytes, true}})) std::memset(data, value, bytes);
  });
}

// Blocking streams, which wait for the default stream and it for them, are not made here.
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  if (flags != cudaStreamNonBlocking)
    return cuda::Answer(flags == cudaStreamDefault ? cudaErrorNotSupported : cudaErrorInvalidValue);
  const cudaError_t error = cuda::Answer(cuda::CheckContext());
  if (error != cudaSuccess) return error;
  const int clamped = std::clamp(priority, cuda::kGreatestPriority, cuda::kLeastPriority);
  *stream = cuda::System::Get().AddStream(cuda::current_device, clamped);
  return error;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, cuda::kLeastPriority);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = cuda::kLeastPriority;
  *greatest = cuda::kGreatestPriority;
  return cuda::Answer(cuda::CheckContext());
}
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  const CUstream_st* const on = cuda::Resolve(stream);
  if (on == nullptr) return cuda::Answer(cudaErrorInvalidResourceHandle);
  *priority = on->priority;
  return cuda::Answer(cudaSuccess);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  cuda::Captures::Get().Forget(stream);
  return cuda::Answer(cuda::System::Get().RemoveStream(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  CUstream_st* const on = cuda::Resolve(stream);
  if (on == nullptr) return cuda::Answer(cudaErrorInvalidResourceHandle);
  if (const cudaError_t error = cuda::Captures::Get().Await(on); error != cudaSuccess) return cuda::Answer(error);
  on->Wait();
  return cuda::Answer(cudaSuccess, on->device);
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  CUstream_st* const on = cuda::Resolve(stream);
  if (on == nullptr) return cuda::Answer(cudaErrorInvalidResourceHandle);
  if (const cudaError_t error = cuda::Captures::Get().Await(on); error != cudaSuccess) return cuda::Answer(error);
  return cuda::Answer(on->IsIdle() ? cudaSuccess : cudaErrorNotReady, on->device);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const std::shared_ptr<CUevent_st> it = cuda::System::Get().FindEvent(event);
  CUstream_st* const on = cuda::Resolve(stream);
  if (it == nullptr || on == nullptr) return cuda::Answer(cudaErrorInvalidResourceHandle);
  cudaError_t captured = cudaSuccess;
  if (cuda::Captures::Get().Wait(on, event, &captured)) return cuda::Answer(captured);
  uint64_t number = 0;
  {
    const std::lock_guard<std::mutex> lock(it->mutex);
    number = it->num_recorded;
  }
  return cuda::Enqueue(stream, "cudaStreamWaitEvent", [=] {
    std::unique_lock<std::mutex> lock(it->mutex);
    it->changed.wait(lock, [&] { return it->num_passed >= number; });
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  const cudaError_t error = cuda::Answer(cuda::CheckContext());
  if (error == cudaSuccess) *event = cuda::System::Get().AddEvent(cuda::current_device);
  if (error == cudaSuccess) (*event)->times = (flags & cudaEventDisableTiming) == 0;
  return error;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  cuda::Captures::Get().Forget(event);
  return cuda::Answer(cuda::System::Get().RemoveEvent(event) ? cudaSuccess : cudaErrorInvalidResourceHandle);
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::shared_ptr<CUevent_st> it = cuda::System::Get().FindEvent(event);
  CUstream_st* const on = cuda::Resolve(stream);
  if (it == nullptr || on == nullptr || on->device != it->device) return cuda::Answer(cudaErrorInvalidResourceHandle);
  if (cuda::Captures::Get().Record(event, on)) return cuda::Answer(cudaSuccess);
  uint64_t number = 0;
  {
    const std::lock_guard<std::mutex> lock(it->mutex);
    number = ++it->num_recorded;
  }
  const auto pass = [=] {
    {
      const std::lock_guard<std::mutex> lock(it->mutex);
      it->num_passed = std::max(it->num_passed, number);
      it->passed_at = std::chrono::steady_clock::now();
    }
    it->changed.notify_all();
  };
  const cudaError_t error = cuda::Enqueue(stream, "cudaEventRecord", pass);
  if (error != cudaSuccess) pass();  // a failed device keeps nobody waiting
  return error;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::shared_ptr<CUevent_st> it = cuda::System::Get().FindEvent(event);
  if (it == nullptr) return cuda::Answer(cudaErrorInvalidResourceHandle);
  if (const cudaError_t error = cuda::Captures::Get().Ask(event); error != cudaSuccess) return cuda::Answer(error);
  if (const cudaError_t error = cuda::Captures::Get().Unsafe(); error != cudaSuccess) return cuda::Answer(error);
  const std::lock_guard<std::mutex> lock(it->mutex);
  return cuda::Answer(it->num_passed == it->num_recorded ? cudaSuccess : cudaErrorNotReady, it->device);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const std::shared_ptr<CUevent_st> it = cuda::System::Get().FindEvent(event);
  if (it == nullptr) return cuda::Answer(cudaErrorInvalidResourceHandle);
  if (const cudaError_t error = cuda::Captures::Get().Ask(event); error != cudaSuccess) return cuda::Answer(error);
  std::unique_lock<std::mutex> lock(it->mutex);
  const uint64_t number = it->num_recorded;
  it->changed.wait(lock, [&] { return it->num_passed >= number; });
  return cuda::Answer(cudaSuccess, it->device);
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  std::chrono::steady_clock::time_point passed_at[2];
  int at = 0;
  for (const cudaEvent_t event : {begin, end}) {
    const std::shared_ptr<CUevent_st> it = cuda::System::Get().FindEvent(event);
    if (it == nullptr) return cuda::Answer(cudaErrorInvalidResourceHandle);
    const std::lock_guard<std::mutex> lock(it->mutex);
    if (!it->times || it->num_recorded == 0) return cuda::Answer(cudaErrorInvalidResourceHandle);
    if (it->num_passed < it->num_recorded) return cuda::Answer(cudaErrorNotReady);
    passed_at[at++] = it->passed_at;
  }
  *milliseconds = std::chrono::duration<float, std::milli>(passed_at[1] - passed_at[0]).count();
  return cuda::Answer(cudaSuccess);
}

}  // extern "C"
