#include "kernels/device.h"

#include <omp.h>

#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "kernels/host_memory.h"

namespace oneflow {
namespace {

TEST(CpuDeviceTest, MemoryIsAlignedAndZero) {
  const auto device = MakeCpuDevice(1);
  for (const size_t num_bytes : {size_t{0}, size_t{1}, size_t{1000}, size_t{5} << 20}) {
    char* const data = static_cast<char*>(device->Allocate(num_bytes));
    ASSERT_NE(data, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 64, 0u);
    for (size_t i = 0; i < num_bytes; ++i) ASSERT_EQ(data[i], 0) << i;
  }
}

TEST(CpuDeviceTest, TooMuchMemoryIsNull) {
  const auto device = MakeCpuDevice(1);
  EXPECT_EQ(device->Allocate(size_t{1} << 60), nullptr);
  // Linux would map this, and end whoever touches it.
  EXPECT_EQ(device->Allocate(AvailableHostBytes() + (256 << 20)), nullptr);
}

TEST(CpuDeviceTest, BindThreadSetsTheCoreBudget) {
  const auto three = MakeCpuDevice(3), none = MakeCpuDevice(0);
  three->BindThread();
  EXPECT_EQ(omp_get_max_threads(), 3);
  none->BindThread();
  EXPECT_EQ(omp_get_max_threads(), 1);
}

TEST(CpuDeviceTest, CopiesAreSynchronous) {
  const auto device = MakeCpuDevice(1);
  void* const data = device->Allocate(8);
  const std::string text = "register";
  std::string back(8, ' ');
  EXPECT_EQ(device->CopyFromHost(data, text.data(), 8), nullptr);
  EXPECT_EQ(device->CopyToHost(back.data(), data, 8), nullptr);
  EXPECT_EQ(back, text);
  EXPECT_TRUE(device->host_accessible());
  EXPECT_EQ(device->stream(), nullptr);
  int event = -1;
  EXPECT_EQ(device->RecordEvent(&event), nullptr);
  EXPECT_EQ(device->WaitEvent(event), nullptr);
}

}  // namespace
}  // namespace oneflow
