// The devices that tests of kernels run on.
#pragma once

#include <memory>
#include <ostream>
#include <string>

#include "gtest/gtest.h"
#include "kernels/device.h"

namespace oneflow::testing {

struct DeviceUnderTest {
  const char* name;
  std::unique_ptr<DeviceContext> (*make)(std::string* why);  // null if this machine has none, and then why
};

inline void PrintTo(const DeviceUnderTest& device, std::ostream* out) { *out << device.name; }

inline std::unique_ptr<DeviceContext> OneCore(std::string*) { return MakeCpuDevice(1); }
inline std::unique_ptr<DeviceContext> TwoCores(std::string*) { return MakeCpuDevice(2); }
inline std::unique_ptr<DeviceContext> FirstGpu(std::string* why) { return MakeCudaDevice(0, why); }

// A test on each of them; skipped where there is none.
class OnDeviceTest : public ::testing::TestWithParam<DeviceUnderTest> {
 protected:
  void SetUp() override {
    std::string why;
    device_ = GetParam().make(&why);
    if (device_ == nullptr) GTEST_SKIP() << why;
    ASSERT_EQ(device_->BindThread(), nullptr);
  }

  std::unique_ptr<DeviceContext> device_;
};

inline std::string NameOf(const ::testing::TestParamInfo<DeviceUnderTest>& info) { return info.param.name; }

}  // namespace oneflow::testing
