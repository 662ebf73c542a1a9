// Times launches on memory and a stream of their own, to choose among a library's algorithms.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <mutex>
#include <vector>

#include "kernels/cuda/runtime.h"

namespace oneflow::cuda {

// Only one exists at a time in a process, because several ranks would disturb each other's times.
struct Trial {
  explicit Trial(const std::vector<size_t>& sizes) : alone(mutex()) {
    error = ErrorText(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (const size_t size : sizes) {
      char* data = nullptr;
      if (error == nullptr) error = ErrorText(cudaMalloc(&data, size));
      memory.push_back(data);
      // Bytes that are moderate numbers in every type. Products of zeros would take less power.
      if (error == nullptr) error = ErrorText(cudaMemsetAsync(data, 0x2c, size, stream));
    }
    if (error != nullptr) cudaGetLastError();  // reported here, so it must not appear as an error of a later call
  }
  Trial(const Trial&) = delete;
  ~Trial() {
    if (stream != nullptr) cudaStreamSynchronize(stream);
    for (void* const data : memory) cudaFree(data);
    if (stream != nullptr) cudaStreamDestroy(stream);
  }

  // Seconds of the fastest round, after a round of warm-up. Keeps the first error.
  template <typename Run>
  double Seconds(Run run) {
    double seconds = INFINITY;
    for (int round = 0; round <= kRounds && error == nullptr; ++round) {
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < kRunsOfARound && error == nullptr; ++i) error = run(stream, memory);
      if (error == nullptr) error = ErrorText(cudaStreamSynchronize(stream));
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      if (round > 0) seconds = std::min(seconds, took.count());
    }
    return seconds;
  }

  static constexpr int kRounds = 3, kRunsOfARound = 10;
  static std::mutex& mutex() {
    static std::mutex one_at_a_time;
    return one_at_a_time;
  }

  const std::lock_guard<std::mutex> alone;
  cudaStream_t stream = nullptr;
  std::vector<void*> memory;
  const char* error = nullptr;
};

}  // namespace oneflow::cuda
