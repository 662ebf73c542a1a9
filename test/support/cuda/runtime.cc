// The CUDA runtime on software devices: devices, streams as threads, events, copies, launches, errors.
#include <absl/debugging/symbolize.h>
#include <cuda_runtime.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "test/support/cuda/block.h"
#include "test/support/cuda/memory.h"
#include "test/support/cuda/software_device.h"
#include "test/support/cuda/watch.h"

using oneflow::software_cuda::Launch;

namespace oneflow::software_cuda {
namespace {

constexpr size_t kSharedBytesUnasked = 48 << 10;
constexpr unsigned kMaxThreadsPerBlock = 1024;

struct Item {
  std::string name;
  std::function<void()> work;
};

}  // namespace
}  // namespace oneflow::software_cuda

// A stream is a thread that does one thing after another.
struct CUstream_st {
  explicit CUstream_st(int device, uint64_t seed) : device(device), random(seed), thread([this] { Run(); }) {}
  ~CUstream_st() {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      stops = true;
    }
    changed.notify_all();
    thread.join();
  }

  void Add(oneflow::software_cuda::Item item) {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      items.push_back(std::move(item));
      ++num_added;
    }
    changed.notify_all();
  }
  // Until all that was added so far is done.
  void Wait() {
    const uint64_t number = num_added;
    Spin([&] { return num_done >= number; });
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return num_done >= number; });
  }
  bool IsIdle() {
    const std::lock_guard<std::mutex> lock(mutex);
    return num_done == num_added;
  }

  void Run();
  // Looks for a while whether something is so, which is sooner seen than a thread is woken.
  template <typename F>
  void Spin(F&& is_so) {
    for (int i = 0; i < 200 && !is_so(); ++i) std::this_thread::yield();
  }

  const int device;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<oneflow::software_cuda::Item> items;     // guarded by mutex
  std::atomic<uint64_t> num_added = 0, num_done = 0;  // changed under it
  bool stops = false;
  std::mt19937_64 random;  // its thread's
  std::thread thread;      // last: uses what is above
};

struct CUevent_st {
  int device = 0;
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t num_recorded = 0, num_passed = 0;  // guarded by mutex
};

namespace oneflow::software_cuda {
namespace {

// Of the stream's thread that runs work.
struct Running {
  CUstream_st* stream = nullptr;
  std::string name;
};
thread_local Running running;
thread_local int current_device = 0;
thread_local cudaError_t last_error = cudaSuccess;

// All devices of the process. Never destroyed: threads of streams may outlive statics.
class System {
 public:
  static System& Get() {
    static System* const system = new System;
    return *system;
  }

  int num_devices() const { return static_cast<int>(visible_.size()); }

  cudaError_t ErrorOf(int device) const { return errors_[device].load(); }
  void ForgetErrors() {
    for (auto& error : errors_) error = cudaSuccess;
  }
  void Fail(int device, cudaError_t error) {
    cudaError_t none = cudaSuccess;
    errors_[device].compare_exchange_strong(none, error);
  }

  CUstream_st* AddStream(int device) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return streams_.emplace_back(std::make_unique<CUstream_st>(device, seed_ ^ (0x9e3779b97f4a7c15 * ++num_streams_)))
        .get();
  }
  bool HasStream(const CUstream_st* stream) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return FindStream(stream) != streams_.end();
  }
  // Ends when its work is done.
  bool RemoveStream(const CUstream_st* stream) {
    std::unique_ptr<CUstream_st> removed;
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = FindStream(stream);
    if (it == streams_.end()) return false;
    removed = std::move(*it);
    streams_.erase(it);
    return true;
  }
  std::vector<CUstream_st*> StreamsOf(int device) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<CUstream_st*> result;
    for (const auto& stream : streams_) {
      if (stream->device == device) result.push_back(stream.get());
    }
    return result;
  }
  // Made when it is first asked for.
  CUstream_st* DefaultStream(int device) {
    CUstream_st* stream = nullptr;
    {
      const std::lock_guard<std::mutex> lock(default_mutex_);
      CUstream_st*& known = defaults_[device];
      if (known == nullptr) known = AddStream(device);
      stream = known;
    }
    return stream;
  }

  CUevent_st* AddEvent(int device) {
    const std::lock_guard<std::mutex> lock(mutex_);
    CUevent_st* const event = events_.emplace_back(std::make_shared<CUevent_st>()).get();
    event->device = device;
    return event;
  }
  std::shared_ptr<CUevent_st> FindEvent(const CUevent_st* event) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = std::find_if(events_.begin(), events_.end(), [&](const auto& x) { return x.get() == event; });
    return it == events_.end() ? nullptr : *it;
  }
  bool RemoveEvent(const CUevent_st* event) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::erase_if(events_, [&](const auto& x) { return x.get() == event; }) > 0;
  }

  void Pin(char* data, size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    pinned_[data] = bytes;
  }
  // How many bytes were pinned, or none.
  std::optional<size_t> Unpin(char* data) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = pinned_.find(data);
    if (it == pinned_.end()) return std::nullopt;
    const size_t bytes = it->second;
    pinned_.erase(it);
    return bytes;
  }
  bool IsPinned(const char* data, size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto it = pinned_.upper_bound(const_cast<char*>(data));
    if (it == pinned_.begin()) return false;
    --it;
    return Region{it->first, it->first + it->second}.Has(data, bytes);
  }

  void AddDefect(std::string text) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::fprintf(stderr, "software CUDA device: %s\n", text.c_str());
    defects_.push_back(std::move(text));
  }
  std::vector<std::string> TakeDefects() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(defects_, {});
  }

  void SetSeed(uint64_t seed) { seed_ = seed; }
  // Of a launch.
  uint64_t NextSeed() { return seed_ + num_launches_.fetch_add(1); }

  // How much dynamic shared memory a kernel may be launched with.
  size_t SharedBytes(int device, const void* kernel) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = shared_bytes_.find({device, kernel});
    return it == shared_bytes_.end() ? kSharedBytesUnasked : it->second;
  }
  void AllowSharedBytes(int device, const void* kernel, size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    shared_bytes_[{device, kernel}] = bytes;
  }

 private:
  // SOFTWARE_CUDA_DEVICES of them (1 unless said), of which CUDA_VISIBLE_DEVICES lists those that the process sees: the
  // list ends at the first that is not there.
  System() {
    const char* const number = std::getenv("SOFTWARE_CUDA_DEVICES");
    const int all = number == nullptr ? 1 : std::atoi(number);
    const char* const list = std::getenv("CUDA_VISIBLE_DEVICES");
    if (list == nullptr) {
      for (int i = 0; i < all; ++i) visible_.push_back(i);
      return;
    }
    std::istringstream words(list);
    for (std::string word; std::getline(words, word, ',');) {
      char* end = nullptr;
      const long device = std::strtol(word.c_str(), &end, 10);
      if (word.empty() || *end != '\0' || device < 0 || device >= all) break;
      visible_.push_back(static_cast<int>(device));
    }
  }

  std::vector<std::unique_ptr<CUstream_st>>::iterator FindStream(const CUstream_st* stream) {
    return std::find_if(streams_.begin(), streams_.end(), [&](const auto& x) { return x.get() == stream; });
  }

  std::vector<int> visible_;
  std::atomic<cudaError_t> errors_[16] = {};
  std::atomic<uint64_t> seed_ = 1, num_launches_ = 0;
  std::mutex default_mutex_;
  std::map<int, CUstream_st*> defaults_;  // guarded by default_mutex_
  std::mutex mutex_;                      // guards what follows
  std::vector<std::unique_ptr<CUstream_st>> streams_;
  uint64_t num_streams_ = 0;
  std::vector<std::shared_ptr<CUevent_st>> events_;
  std::map<char*, size_t> pinned_;
  std::vector<std::string> defects_;
  std::map<std::pair<int, const void*>, size_t> shared_bytes_;
};

// What a call returns: a failed device's error if there is one. Errors stay for cudaGetLastError.
cudaError_t Answer(cudaError_t error, int device = current_device) {
  System& system = System::Get();
  if (device < system.num_devices()) {
    if (const cudaError_t failed = system.ErrorOf(device); failed != cudaSuccess) error = failed;
  }
  if (error != cudaSuccess) last_error = error;
  return error;
}

// The stream that a handle means, or null.
CUstream_st* Resolve(cudaStream_t stream) {
  System& system = System::Get();
  if (system.num_devices() == 0) return nullptr;
  if (stream == nullptr) return system.DefaultStream(current_device);
  return system.HasStream(stream) ? stream : nullptr;
}

std::string NameOf(const void* kernel) {
  char name[512];
  return absl::Symbolize(kernel, name, sizeof name) ? name : "a kernel";
}

cudaError_t CheckLaunch(const cudaLaunchConfig_t& config, const void* kernel, int device) {
  const dim3 &grid = config.gridDim, &block = config.blockDim;
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || threads == 0 || threads > kMaxThreadsPerBlock || block.z > 64) {
    return cudaErrorInvalidConfiguration;
  }
  if (grid.x > INT32_MAX || grid.y > 65'535 || grid.z > 65'535) return cudaErrorInvalidConfiguration;
  if (config.numAttrs != 0) return cudaErrorNotSupported;
  return config.dynamicSmemBytes > System::Get().SharedBytes(device, kernel) ? cudaErrorInvalidValue : cudaSuccess;
}

bool IsIn(const void* data, size_t bytes) {
  const std::optional<Allocation> found = FindAllocation(data);
  return found.has_value() && found->bytes.Has(data, bytes);
}

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

}  // namespace

int DeviceOfThread() { return running.stream == nullptr ? -1 : running.stream->device; }

cudaError_t Enqueue(cudaStream_t stream, std::string name, std::function<void()> work) {
  CUstream_st* const on = Resolve(stream);
  if (on == nullptr) return Answer(cudaErrorInvalidResourceHandle);
  if (const cudaError_t failed = System::Get().ErrorOf(on->device); failed != cudaSuccess)
    return Answer(failed, on->device);
  on->Add({std::move(name), std::move(work)});
  return cudaSuccess;
}

bool CheckRange(const char* operand, const void* data, size_t bytes) {
  if (bytes == 0 || IsIn(data, bytes)) return true;
  Report(running.name + ": " + operand + ", " + std::to_string(bytes) + " bytes, do not lie in an allocation");
  return false;
}

void Report(std::string what, cudaError_t error) {
  if (running.stream != nullptr) System::Get().Fail(running.stream->device, error);
  System::Get().AddDefect(std::move(what));
}

std::vector<std::string> TakeDefects() { return System::Get().TakeDefects(); }
void ForgetErrors() {
  System::Get().ForgetErrors();
  last_error = cudaSuccess;
}

bool HostIsKeptOut() { return HasProtectionKeys(); }

void SetSeed(uint64_t seed) { System::Get().SetSeed(seed); }

cudaError_t LaunchGrid(const cudaLaunchConfig_t& config, Launch launch) {
  CUstream_st* const on = Resolve(config.stream);
  if (on == nullptr) return Answer(cudaErrorInvalidResourceHandle);
  if (on->device != current_device) return Answer(cudaErrorInvalidResourceHandle);
  if (const cudaError_t error = CheckLaunch(config, launch.kernel, on->device); error != cudaSuccess)
    return Answer(error);
  const uint64_t seed = System::Get().NextSeed();
  return Enqueue(config.stream, "a launch", [=, launch = std::move(launch)] {
    BlockRunner::OfThread().Run(config, launch, NameOf(launch.kernel), seed);
  });
}

cudaError_t Malloc(void** data, size_t bytes) {
  *data = nullptr;
  if (current_device >= System::Get().num_devices()) return Answer(cudaErrorNoDevice);
  if (bytes == 0) return Answer(cudaSuccess);
  char* const memory = AllocateOn(current_device, bytes);
  if (memory == nullptr) return Answer(cudaErrorMemoryAllocation);
  *data = memory;
  AdmitThread();
  std::memset(memory, 0xa5, bytes);  // what was there before, which is not zeros
  AdmitThread(false);
  return Answer(cudaSuccess);
}

cudaError_t SetSharedMemory(const void* kernel, size_t bytes) {
  if (bytes > kMaxSharedBytes) return Answer(cudaErrorInvalidValue);
  System::Get().AllowSharedBytes(current_device, kernel, std::max(bytes, kSharedBytesUnasked));
  return Answer(cudaSuccess);
}

cudaError_t Attributes(cudaFuncAttributes* attributes, const void*) {
  if (System::Get().num_devices() == 0) return Answer(cudaErrorNoDevice);
  *attributes = {.maxThreadsPerBlock = kMaxThreadsPerBlock, .ptxVersion = 90, .binaryVersion = 90};
  return Answer(cudaSuccess);
}

}  // namespace oneflow::software_cuda

namespace cuda = oneflow::software_cuda;

// Between two things a little time passes, or none.
void CUstream_st::Run() {
  cuda::AdmitThread();
  cuda::running.stream = this;
  for (;;) {
    cuda::Item item;
    Spin([&] { return num_added > num_done; });
    {
      std::unique_lock<std::mutex> lock(mutex);
      changed.wait(lock, [&] { return stops || !items.empty(); });
      if (items.empty()) return;
      item = std::move(items.front());
      items.pop_front();
    }
    if (random() % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 100));
    cuda::running.name = item.name;
    // A device that has failed does nothing more, but those who wait are let go.
    if (cuda::System::Get().ErrorOf(device) == cudaSuccess || item.name == "cudaEventRecord") item.work();
    {
      const std::lock_guard<std::mutex> lock(mutex);
      ++num_done;
    }
    changed.notify_all();
  }
}

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorInvalidMemcpyDirection:
      return "cudaErrorInvalidMemcpyDirection";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    case cudaErrorMisalignedAddress:
      return "cudaErrorMisalignedAddress";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    case cudaErrorNotSupported:
      return "cudaErrorNotSupported";
  }
  return "unrecognized error code";
}
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInvalidMemcpyDirection:
      return "invalid copy direction";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorMisalignedAddress:
      return "misaligned address";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    case cudaErrorNotSupported:
      return "operation not supported";
  }
  return "unrecognized error code";
}

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
cudaError_t cudaSetDevice(int device) {
  const int count = cuda::System::Get().num_devices();
  if (count == 0) return cuda::Answer(cudaErrorNoDevice);
  if (device < 0 || device >= count) return cuda::Answer(cudaErrorInvalidDevice);
  cuda::current_device = device;
  return cuda::Answer(cudaSuccess);
}
cudaError_t cudaGetDevice(int* device) {
  *device = cuda::current_device;
  return cuda::Answer(cuda::System::Get().num_devices() == 0 ? cudaErrorNoDevice : cudaSuccess);
}
cudaError_t cudaDeviceSynchronize() {
  for (CUstream_st* const stream : cuda::System::Get().StreamsOf(cuda::current_device)) stream->Wait();
  return cuda::Answer(cudaSuccess);
}

cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned) {
  void* const memory =
      mmap(nullptr, std::max<size_t>(bytes, 1), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return cuda::Answer(cudaErrorMemoryAllocation);
  cuda::System::Get().Pin(static_cast<char*>(memory), bytes);
  *data = memory;
  return cuda::Answer(cudaSuccess);
}
cudaError_t cudaFreeHost(void* data) {
  if (data == nullptr) return cuda::Answer(cudaSuccess);
  const std::optional<size_t> bytes = cuda::System::Get().Unpin(static_cast<char*>(data));
  if (!bytes.has_value()) return cuda::Answer(cudaErrorInvalidValue);
  cudaDeviceSynchronize();
  munmap(data, std::max<size_t>(*bytes, 1));
  return cuda::Answer(cudaSuccess);
}
// Waits for the device, whose work may still use it.
cudaError_t cudaFree(void* data) {
  if (data == nullptr) return cuda::Answer(cudaSuccess);
  const auto allocation = cuda::FindAllocation(data);
  if (!allocation.has_value() || allocation->bytes.begin != data) return cuda::Answer(cudaErrorInvalidValue);
  for (CUstream_st* const stream : cuda::System::Get().StreamsOf(allocation->device)) stream->Wait();
  cuda::FreeOn(allocation->device, data);
  return cuda::Answer(cudaSuccess);
}
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  *total_bytes = cuda::BytesOf(cuda::current_device);
  *free_bytes = *total_bytes - cuda::BytesInUse(cuda::current_device);
  return cuda::Answer(cudaSuccess);
}

// From pageable memory the bytes are taken at once; to pageable memory the call waits until they are there.
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (bytes == 0) return cuda::Answer(cudaSuccess);
  cuda::Ends ends;
  if (const cudaError_t error = cuda::FindEnds(to, from, bytes, kind, &ends); error != cudaSuccess)
    return cuda::Answer(error);
  cuda::System& system = cuda::System::Get();
  const bool staged = !ends.from_device && !system.IsPinned(static_cast<const char*>(from), bytes);
  const bool waits = !ends.to_device && !system.IsPinned(static_cast<const char*>(to), bytes);
  std::shared_ptr<char[]> stage;
  if (staged) {
    stage.reset(new char[bytes]);
    std::memcpy(stage.get(), from, bytes);
  }
  const cudaError_t error = cuda::Enqueue(stream, "cudaMemcpyAsync", [=] {
    const void* const source = staged ? stage.get() : from;
    if (ends.from_device && !cuda::CheckRange("the source", source, bytes)) return;
    if (ends.to_device && !cuda::CheckRange("the target", to, bytes)) return;
    std::memmove(to, source, bytes);
  });
  return error == cudaSuccess && waits ? cudaStreamSynchronize(stream) : error;
}
cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return cuda::Answer(cudaSuccess);
  if (!cuda::IsIn(data, bytes)) return cuda::Answer(cudaErrorInvalidValue);
  return cuda::Enqueue(stream, "cudaMemsetAsync", [=] {
    if (cuda::CheckRange("the target", data, bytes)) std::memset(data, value, bytes);
  });
}

// Blocking streams, which wait for the default stream and it for them, are not made here.
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  if (cuda::System::Get().num_devices() == 0) return cuda::Answer(cudaErrorNoDevice);
  if (flags != cudaStreamNonBlocking)
    return cuda::Answer(flags == cudaStreamDefault ? cudaErrorNotSupported : cudaErrorInvalidValue);
  const cudaError_t error = cuda::Answer(cudaSuccess);
  if (error == cudaSuccess) *stream = cuda::System::Get().AddStream(cuda::current_device);
  return error;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return cuda::Answer(cuda::System::Get().RemoveStream(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  CUstream_st* const on = cuda::Resolve(stream);
  if (on == nullptr) return cuda::Answer(cudaErrorInvalidResourceHandle);
  on->Wait();
  return cuda::Answer(cudaSuccess, on->device);
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  CUstream_st* const on = cuda::Resolve(stream);
  if (on == nullptr) return cuda::Answer(cudaErrorInvalidResourceHandle);
  return cuda::Answer(on->IsIdle() ? cudaSuccess : cudaErrorNotReady, on->device);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const std::shared_ptr<CUevent_st> it = cuda::System::Get().FindEvent(event);
  if (it == nullptr) return cuda::Answer(cudaErrorInvalidResourceHandle);
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

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  const cudaError_t error = cuda::Answer(cuda::System::Get().num_devices() == 0 ? cudaErrorNoDevice : cudaSuccess);
  if (error == cudaSuccess) *event = cuda::System::Get().AddEvent(cuda::current_device);
  return error;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return cuda::Answer(cuda::System::Get().RemoveEvent(event) ? cudaSuccess : cudaErrorInvalidResourceHandle);
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::shared_ptr<CUevent_st> it = cuda::System::Get().FindEvent(event);
  CUstream_st* const on = cuda::Resolve(stream);
  if (it == nullptr || on == nullptr || on->device != it->device) return cuda::Answer(cudaErrorInvalidResourceHandle);
  uint64_t number = 0;
  {
    const std::lock_guard<std::mutex> lock(it->mutex);
    number = ++it->num_recorded;
  }
  const cudaError_t error = cuda::Enqueue(stream, "cudaEventRecord", [=] {
    {
      const std::lock_guard<std::mutex> lock(it->mutex);
      it->num_passed = std::max(it->num_passed, number);
    }
    it->changed.notify_all();
  });
  return error;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::shared_ptr<CUevent_st> it = cuda::System::Get().FindEvent(event);
  if (it == nullptr) return cuda::Answer(cudaErrorInvalidResourceHandle);
  const std::lock_guard<std::mutex> lock(it->mutex);
  return cuda::Answer(it->num_passed == it->num_recorded ? cudaSuccess : cudaErrorNotReady, it->device);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const std::shared_ptr<CUevent_st> it = cuda::System::Get().FindEvent(event);
  if (it == nullptr) return cuda::Answer(cudaErrorInvalidResourceHandle);
  std::unique_lock<std::mutex> lock(it->mutex);
  const uint64_t number = it->num_recorded;
  it->changed.wait(lock, [&] { return it->num_passed >= number; });
  return cuda::Answer(cudaSuccess, it->device);
}

}  // extern "C"
