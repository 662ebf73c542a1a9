// What the devices of a process are made of: streams, events, pinned memory, errors.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "test/support/cuda/software_device.h"
#include "test/support/cuda/watch.h"

namespace oneflow::software_cuda {

inline constexpr int kMaxDevices = 16;
inline constexpr size_t kSharedBytesUnasked = 48 << 10;
inline constexpr int kLeastPriority = 0, kGreatestPriority = -5;  // as an H100's

// A stream's next thing to do.
struct Item {
  std::string name;
  std::function<void()> work;
};

}  // namespace oneflow::software_cuda

// A stream is a thread that does one thing after another.
struct CUstream_st {
  CUstream_st(int device, int priority, uint64_t seed)
      : device(device), priority(priority), random(seed), thread([this] { Run(); }) {}
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
  // On its thread: the item's work, unless the device has failed.
  void Do(const oneflow::software_cuda::Item& item);
  // Looks for a while whether something is so, which is sooner seen than a thread is woken.
  template <typename F>
  void Spin(F&& is_so) {
    for (int i = 0; i < 200 && !is_so(); ++i) std::this_thread::yield();
  }

  const int device;
  const int priority;
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
  bool times = true;
  std::chrono::steady_clock::time_point passed_at;  // guarded by mutex
};
namespace oneflow::software_cuda {

// Of the stream's thread that runs work.
struct Running {
  CUstream_st* stream = nullptr;
  std::string name;
  uint64_t replay = 0;  // of a graph: what it does is in another order each time
};
extern thread_local Running running;
extern thread_local int current_device;
extern thread_local cudaError_t last_error;

// All devices of the process. Never destroyed: threads of streams may outlive statics.
class System {
 public:
  static System& Get() {
    static System* const system = new System;
    return *system;
  }

  int num_devices() const { return static_cast<int>(visible_.size()); }
  // Its number on the machine, which CUDA_VISIBLE_DEVICES hides.
  int PhysicalDevice(int device) const { return visible_[device]; }

  cudaError_t ErrorOf(int device) const { return errors_[device].load(); }
  void ForgetErrors() {
    for (auto& error : errors_) error = cudaSuccess;
    {
      const std::lock_guard<std::mutex> lock(faults_mutex_);
      for (Faults& faults : faults_) faults = {};
    }
    faults_changed_.notify_all();
  }
  // Counts the device's work, which fails or hangs if it was to.
  void BeginWork(int device);
  int64_t WorkOf(int device) const { return work_[device]; }
  void FailAtWork(int device, int64_t number, cudaError_t error) {
    const std::lock_guard<std::mutex> lock(faults_mutex_);
    faults_[device].fails_at = number;
    faults_[device].error = error;
  }
  void HangAtWork(int device, int64_t number) {
    const std::lock_guard<std::mutex> lock(faults_mutex_);
    faults_[device].hangs_at = number;
  }
  // The first error of a device stays.
  void Fail(int device, cudaError_t error) {
    cudaError_t none = cudaSuccess;
    errors_[device].compare_exchange_strong(none, error);
    { const std::lock_guard<std::mutex> lock(faults_mutex_); }  // nobody is between its look and its sleep
    faults_changed_.notify_all();
  }

  // Makes the process' context on the device, which its first call does. False if there is no memory for it.
  bool MakeContext(int device);

  CUstream_st* AddStream(int device, int priority = 0) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const uint64_t seed = seed_ ^ (0x9e3779b97f4a7c15 * ++num_streams_);
    return streams_.emplace_back(std::make_shared<CUstream_st>(device, priority, seed)).get();
  }
  bool HasStream(const CUstream_st* stream) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return FindStream(stream) != streams_.end();
  }
  // Ends when its work is done.
  bool RemoveStream(const CUstream_st* stream) {
    std::shared_ptr<CUstream_st> removed;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto it = FindStream(stream);
      if (it == streams_.end()) return false;
      removed = std::move(*it);
      streams_.erase(it);
    }
    removed->Wait();  // who else waits for it may hold it a little longer
    return true;
  }
  std::vector<std::shared_ptr<CUstream_st>> StreamsOf(int device) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<std::shared_ptr<CUstream_st>> result;
    for (const auto& stream : streams_) {
      if (stream->device == device) result.push_back(stream);
    }
    return result;
  }
  // Until all that its streams have so far is done, as freeing its memory does.
  void WaitForDevice(int device) {
    for (const auto& stream : StreamsOf(device)) stream->Wait();
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

  void CountLaunch(const Launched& more) {
    const std::lock_guard<std::mutex> lock(mutex_);
    launched_.threads += more.threads;
    launched_.multiplications += more.multiplications;
    launched_.copies_to_host += more.copies_to_host;
    launched_.graphs += more.graphs;
  }
  Launched LaunchedSoFar() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return launched_;
  }

  void SetTimesOfProducts(const std::array<int, kProductAlgorithms>& microseconds) {
    for (int i = 0; i < kProductAlgorithms; ++i) microseconds_[i] = microseconds[i];
  }
  std::array<int64_t, kProductAlgorithms> ProductsByAlgorithm() {
    std::array<int64_t, kProductAlgorithms> products;
    for (int i = 0; i < kProductAlgorithms; ++i) products[i] = products_[i];
    return products;
  }
  void TakeTimeOfProduct(int algorithm) {
    ++products_[algorithm];
    const int microseconds = microseconds_[algorithm];
    if (microseconds > 0) std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
  }
  void CountKernel(const void* kernel) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++kernel_launches_[kernel];
  }
  std::map<const void*, int64_t> KernelLaunches() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return kernel_launches_;
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
  System();

  // What was ordered of a device; works are numbered from 1.
  struct Faults {
    int64_t fails_at = 0, hangs_at = 0;
    cudaError_t error = cudaErrorLaunchFailure;
  };
  void ReadFaults();

  std::vector<std::shared_ptr<CUstream_st>>::iterator FindStream(const CUstream_st* stream) {
    return std::find_if(streams_.begin(), streams_.end(), [&](const auto& x) { return x.get() == stream; });
  }

  std::vector<int> visible_;
  std::atomic<cudaError_t> errors_[kMaxDevices] = {};
  std::atomic<int64_t> work_[kMaxDevices] = {};
  std::mutex faults_mutex_;
  std::condition_variable faults_changed_;
  Faults faults_[kMaxDevices];  // guarded by faults_mutex_
  std::mutex contexts_mutex_;
  bool has_context_[kMaxDevices] = {};  // guarded by contexts_mutex_
  std::atomic<uint64_t> seed_ = 1, num_launches_ = 0;
  std::mutex default_mutex_;
  std::map<int, CUstream_st*> defaults_;  // guarded by default_mutex_
  std::mutex mutex_;                      // guards what follows
  Launched launched_;
  std::map<const void*, int64_t> kernel_launches_;
  std::array<std::atomic<int>, kProductAlgorithms> microseconds_ = {};
  std::array<std::atomic<int64_t>, kProductAlgorithms> products_ = {};
  std::vector<std::shared_ptr<CUstream_st>> streams_;
  uint64_t num_streams_ = 0;
  std::vector<std::shared_ptr<CUevent_st>> events_;
  std::map<char*, size_t> pinned_;
  std::vector<std::string> defects_;
  std::map<std::pair<int, const void*>, size_t> shared_bytes_;
};
// What a call returns: a failed device's error if there is one. Errors stay for cudaGetLastError.
cudaError_t Answer(cudaError_t error, int device = current_device);

// The stream that a handle means, or null.
CUstream_st* Resolve(cudaStream_t stream);

// Whether all these bytes lie in one allocation.
bool IsIn(const void* data, size_t bytes);

}  // namespace oneflow::software_cuda
