// For tests of the software device: every test begins with four devices, on which nothing has gone wrong.
#pragma once

#include <cuda_runtime.h>

#include <cstdlib>
#include <vector>

#include "gtest/gtest.h"
#include "test/support/cuda/software_device.h"

namespace oneflow::software_cuda {

class DeviceTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("SOFTWARE_CUDA_DEVICES", "4", 1); }
  void SetUp() override {
    ForgetErrors();
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  }
  void TearDown() override {
    ForgetErrors();
    EXPECT_TRUE(TakeDefects().empty());
  }
};

class Stream {
 public:
  Stream() { EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess); }
  Stream(const Stream&) = delete;
  ~Stream() { cudaStreamDestroy(stream_); }
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// On the device that is current when it is made.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t size) : size_(size) { EXPECT_EQ(cudaMalloc(&data_, size * sizeof(T)), cudaSuccess); }
  DeviceArray(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(data_); }
  T* data() const { return data_; }
  void Set(const std::vector<T>& values) {
    EXPECT_EQ(cudaMemcpyAsync(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice, nullptr), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  }
  std::vector<T> Get() const {
    std::vector<T> values(size_);
    EXPECT_EQ(cudaMemcpyAsync(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost, nullptr), cudaSuccess);
    return values;
  }

 private:
  const size_t size_;
  T* data_ = nullptr;
};

}  // namespace oneflow::software_cuda
