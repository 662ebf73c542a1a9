// How long work takes on a device's own clock.
#include <chrono>
#include <cstddef>

#include "gtest/gtest.h"
#include "kernels/device.h"
#include "test/kernels/devices.h"

namespace oneflow::testing {
namespace {

using Clock = std::chrono::steady_clock;

class TimingTest : public OnDeviceTest {
 protected:
  // Of filling so much memory with zeros; expects that the host saw no less.
  double SecondsOfFilling(void* memory, size_t num_bytes) {
    const auto begin = Clock::now();
    double seconds = -1;
    EXPECT_EQ(device_->BeginTiming(), nullptr);
    EXPECT_EQ(device_->FillZero(memory, num_bytes), nullptr);
    EXPECT_EQ(device_->EndTiming(&seconds), nullptr);
    EXPECT_GE(seconds, 0);
    EXPECT_LE(seconds, std::chrono::duration<double>(Clock::now() - begin).count() + 1e-5);  // a clock counts by 0.5 us
    return seconds;
  }
};

TEST_P(TimingTest, MoreWorkTakesLongerOneTimeAfterAnother) {
  constexpr size_t kBytes = size_t{64} << 20;
  void* const memory = device_->Allocate(kBytes);
  ASSERT_NE(memory, nullptr);
  double little = 0, much = 0;
  for (int round = 0; round < 3; ++round) {
    little += SecondsOfFilling(memory, 64);
    much += SecondsOfFilling(memory, kBytes);
  }
  EXPECT_GT(much, little);
}

INSTANTIATE_TEST_SUITE_P(Devices, TimingTest,
                         ::testing::Values(DeviceUnderTest{"cpu", OneCore}, DeviceUnderTest{"cuda", FirstGpu}), NameOf);

}  // namespace
}  // namespace oneflow::testing
