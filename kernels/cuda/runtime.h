// Errors as texts, the current device, and events, for the host code that uses the CUDA runtime.
#pragma once

#include <cuda_runtime.h>

#include <mutex>
#include <vector>

namespace oneflow::cuda {

// Null, or CUDA's text for the error.
inline const char* ErrorText(cudaError_t error) { return error == cudaSuccess ? nullptr : cudaGetErrorString(error); }

// Makes a device current until the end of the scope.
class CurrentDevice {
 public:
  explicit CurrentDevice(int index) {
    cudaGetDevice(&before_);
    error_ = ErrorText(cudaSetDevice(index));
  }
  CurrentDevice(const CurrentDevice&) = delete;
  ~CurrentDevice() { cudaSetDevice(before_); }

  const char* error() const { return error_; }

 private:
  int before_ = 0;
  const char* error_ = nullptr;
};

// A pool of numbered events of one device. Waiting threads sleep. Any thread.
class EventPool {
 public:
  EventPool() = default;
  EventPool(const EventPool&) = delete;
  ~EventPool() {
    for (cudaEvent_t event : events_) cudaEventDestroy(event);
  }

  // Records an event behind all work of `stream` so far. REQUIRES: its device is current.
  const char* Record(cudaStream_t stream, int* number) {
    cudaEvent_t event = nullptr;
    if (const char* error = Take(number, &event)) return error;
    return ErrorText(cudaEventRecord(event, stream));
  }
  // Waits for the event, then gives it back.
  const char* Wait(int number) {
    const char* const error = ErrorText(cudaEventSynchronize(Get(number)));
    GiveBack(number);
    return error;
  }
  void GiveBack(int number) {
    const std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(number);
  }
  cudaEvent_t Get(int number) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return events_[number];
  }

 private:
  const char* Take(int* number, cudaEvent_t* event) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (free_.empty()) {
      if (const char* error =
              ErrorText(cudaEventCreateWithFlags(event, cudaEventDisableTiming | cudaEventBlockingSync))) {
        return error;
      }
      free_.push_back(static_cast<int>(events_.size()));
      events_.push_back(*event);
    }
    *number = free_.back();
    *event = events_[*number];
    free_.pop_back();
    return nullptr;
  }

  std::mutex mutex_;
  std::vector<cudaEvent_t> events_;  // guarded by mutex_, as is free_
  std::vector<int> free_;            // indices into events_
};

}  // namespace oneflow::cuda
