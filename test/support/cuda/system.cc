#include "test/support/cuda/system.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "test/support/cuda/graph.h"
#include "test/support/cuda/memory.h"
#include "test/support/cuda/software_device.h"
#include "test/support/cuda/watch.h"

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
    Do(item);
    {
      const std::lock_guard<std::mutex> lock(mutex);
      ++num_done;
    }
    changed.notify_all();
  }
}

void CUstream_st::Do(const cuda::Item& item) {
  cuda::running.name = item.name;
  const bool is_event = item.name == "cudaEventRecord";
  cuda::System& system = cuda::System::Get();
  if (!is_event) system.BeginWork(device);
  // A device that has failed does nothing more, but those who wait are let go.
  if (system.ErrorOf(device) == cudaSuccess || is_event) item.work();
}

namespace oneflow::software_cuda {

thread_local Running running;
thread_local int current_device = 0;
thread_local cudaError_t last_error = cudaSuccess;

System::System() {
  ReadFaults();
  const char* const number = std::getenv("SOFTWARE_CUDA_DEVICES");
  const int all = std::min(number == nullptr ? 1 : std::atoi(number), kMaxDevices);
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

void System::ReadFaults() {
  int device = 0, error = cudaErrorLaunchFailure;
  long long work = 0;
  const char* const fault = std::getenv("SOFTWARE_CUDA_FAULT");
  if (fault != nullptr && std::sscanf(fault, "%d:%lld:%d", &device, &work, &error) >= 2 && device >= 0 &&
      device < kMaxDevices) {
    FailAtWork(device, work, static_cast<cudaError_t>(error));
  }
  const char* const hang = std::getenv("SOFTWARE_CUDA_HANG");
  if (hang != nullptr && std::sscanf(hang, "%d:%lld", &device, &work) == 2 && device >= 0 && device < kMaxDevices) {
    HangAtWork(device, work);
  }
}

void System::BeginWork(int device) {
  const int64_t number = ++work_[device];
  std::unique_lock<std::mutex> lock(faults_mutex_);
  const Faults& faults = faults_[device];
  faults_changed_.wait(lock, [&] { return number != faults.hangs_at || ErrorOf(device) != cudaSuccess; });
  if (number != faults.fails_at) return;
  const cudaError_t error = faults.error;
  lock.unlock();
  Fail(device, error);
}

bool System::MakeContext(int device) {
  const std::lock_guard<std::mutex> lock(contexts_mutex_);
  if (!has_context_[device]) has_context_[device] = HoldOn(device, kContextBytes);
  return has_context_[device];
}

cudaError_t Answer(cudaError_t error, int device) {
  System& system = System::Get();
  if (device < system.num_devices()) {
    if (const cudaError_t failed = system.ErrorOf(device); failed != cudaSuccess) error = failed;
  }
  if (error != cudaSuccess) last_error = error;
  return error;
}

CUstream_st* Resolve(cudaStream_t stream) {
  System& system = System::Get();
  if (system.num_devices() == 0) return nullptr;
  if (stream == nullptr) return system.DefaultStream(current_device);
  return system.HasStream(stream) ? stream : nullptr;
}

bool IsIn(const void* data, size_t bytes) {
  const std::optional<Allocation> found = FindAllocation(data);
  return found.has_value() && found->bytes.Has(data, bytes);
}

int DeviceOfThread() { return running.stream == nullptr ? -1 : running.stream->device; }

cudaError_t Enqueue(cudaStream_t stream, std::string name, std::function<void()> work) {
  CUstream_st* const on = Resolve(stream);
  if (on == nullptr) return Answer(cudaErrorInvalidResourceHandle);
  if (const cudaError_t failed = System::Get().ErrorOf(on->device); failed != cudaSuccess)
    return Answer(failed, on->device);
  Item item = {std::move(name), std::move(work)};
  cudaError_t error = cudaSuccess;
  if (Captures::Get().Take(on, item, &error)) return Answer(error, on->device);
  on->Add(std::move(item));
  return cudaSuccess;
}

// Whether it lies in an allocation where the work may touch it.
static bool CheckPlace(const Operand& a) {
  const std::string what = std::string(a.name) + ", " + std::to_string(a.bytes) + " bytes, ";
  const std::optional<Allocation> found = FindAllocation(a.data);
  if (!found.has_value() || !found->bytes.Has(a.data, a.bytes)) {
    Report(what + "do not lie in an allocation");
    return false;
  }
  if (found->device == DeviceOfThread() || a.on_any_device) return true;
  Report(what + "lie on device " + std::to_string(found->device) + ", the work is on " +
         std::to_string(DeviceOfThread()));
  return false;
}

bool CheckOperands(const std::vector<Operand>& operands) {
  const auto overlap = [](const Operand& a, const Operand& b) {
    const char *const begin = static_cast<const char*>(a.data), *const other = static_cast<const char*>(b.data);
    return begin < other + b.bytes && other < begin + a.bytes;
  };
  for (const Operand& a : operands) {
    if (a.bytes > 0 && !CheckPlace(a)) return false;
    for (const Operand& b : operands) {
      if (&a == &b || !a.written || !overlap(a, b)) continue;
      Report(std::string(a.name) + " overlaps " + b.name);
      return false;
    }
  }
  return true;
}

void Report(const std::string& what, cudaError_t error) {
  if (running.stream == nullptr) return System::Get().AddDefect(what);
  System::Get().Fail(running.stream->device, error);
  System::Get().AddDefect(running.name + ": " + what);
}

std::vector<std::string> TakeDefects() { return System::Get().TakeDefects(); }
void SetTimesOfProducts(const std::array<int, kProductAlgorithms>& microseconds) {
  System::Get().SetTimesOfProducts(microseconds);
}
std::array<int64_t, kProductAlgorithms> ProductsByAlgorithm() { return System::Get().ProductsByAlgorithm(); }
Launched LaunchedSoFar() { return System::Get().LaunchedSoFar(); }
int64_t WorkOf(int device) { return System::Get().WorkOf(device); }
void FailDeviceAtWork(int device, int64_t number, cudaError_t error) {
  System::Get().FailAtWork(device, number, error);
}
void FailDevice(int device, cudaError_t error) { System::Get().Fail(device, error); }
void HangDeviceAtWork(int device, int64_t number) { System::Get().HangAtWork(device, number); }
std::vector<int> StreamPriorities(int device) {
  std::vector<int> priorities;
  for (const auto& stream : System::Get().StreamsOf(device)) priorities.push_back(stream->priority);
  return priorities;
}
void ForgetErrors() {
  System::Get().ForgetErrors();
  last_error = cudaSuccess;
}

float RoundToTf32(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  if ((bits & 0x7f800000) == 0x7f800000) return x;  // infinity and NaN
  bits = (bits + 0xfff + (bits >> 13 & 1)) & ~uint32_t{0x1fff};
  std::memcpy(&x, &bits, sizeof bits);
  return x;
}

bool HostIsKeptOut() { return HasProtectionKeys(); }

void SetSeed(uint64_t seed) { System::Get().SetSeed(seed); }
}  // namespace oneflow::software_cuda
