// What is read and fetched beside what a device computes: every value arrives, and none is overtaken by the next.
#include "kernels/host_transfer.h"

#include <array>
#include <cstdint>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/device.h"
#include "test/kernels/devices.h"

namespace oneflow::testing {
namespace {

constexpr int kSlots = HostTransfer::kSlots;
constexpr size_t kCount = 5000;
constexpr size_t kBytes = kCount * sizeof(int64_t);

class HostTransferTest : public OnDeviceTest {
 protected:
  // Fills the read's slot with numbers that tell the round, when the last transfer has let go of it.
  void Read(HostTransfer& read, int64_t round, void* value) {
    const int slot = static_cast<int>(round % kSlots);
    ASSERT_EQ(read.WaitForSlot(slot), nullptr);
    int64_t* const numbers = reinterpret_cast<int64_t*>(read.slot(slot));
    std::iota(numbers, numbers + kCount, round * 1000);
    ASSERT_EQ(read.ToDevice(value, slot, kBytes), nullptr);
  }
  void ExpectRound(HostTransfer& fetch, int64_t round, int event) {
    ASSERT_EQ(device_->WaitEvent(event), nullptr);
    const int64_t* const numbers = reinterpret_cast<const int64_t*>(fetch.slot(static_cast<int>(round % kSlots)));
    for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(numbers[i], round * 1000 + static_cast<int64_t>(i));
  }
};

// One value in device memory that every round overwrites, while the last round's is still on its way.
TEST_P(HostTransferTest, NoValueIsOvertakenByTheNext) {
  const auto read = device_->MakeTransfer(kBytes, device_->Allocate(kBytes));
  const auto fetch = device_->MakeTransfer(kBytes, nullptr);
  ASSERT_NE(read, nullptr);
  ASSERT_NE(fetch, nullptr);
  void* const value = device_->Allocate(kBytes);
  std::array<int, kSlots> events;
  constexpr int64_t kRounds = 40;
  for (int64_t round = 0; round < kRounds; ++round) {
    if (round >= kSlots) ExpectRound(*fetch, round - kSlots, events[round % kSlots]);
    Read(*read, round, value);
    ASSERT_EQ(fetch->ToHost(static_cast<int>(round % kSlots), value, kBytes, &events[round % kSlots]), nullptr);
  }
  for (int64_t round = kRounds - kSlots; round < kRounds; ++round) {
    ExpectRound(*fetch, round, events[round % kSlots]);
  }
}

// Nobody waits but for the slots, which come round again and again.
TEST_P(HostTransferTest, NoSlotIsWrittenWhileItIsRead) {
  constexpr int64_t kRounds = 20;
  const auto read = device_->MakeTransfer(kBytes, nullptr);
  ASSERT_NE(read, nullptr);
  std::vector<void*> values;
  for (int64_t round = 0; round < kRounds; ++round) values.push_back(device_->Allocate(kBytes));
  for (int64_t round = 0; round < kRounds; ++round) Read(*read, round, values[round]);
  std::vector<int64_t> numbers(kCount);
  for (int64_t round = 0; round < kRounds; ++round) {
    ASSERT_EQ(device_->CopyToHost(numbers.data(), values[round], kBytes), nullptr);
    for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(numbers[i], round * 1000 + static_cast<int64_t>(i)) << round;
  }
}

TEST_P(HostTransferTest, MayBeEmpty) {
  const auto transfer = device_->MakeTransfer(0, nullptr);
  ASSERT_NE(transfer, nullptr);
  int event = 0;
  EXPECT_EQ(transfer->ToDevice(nullptr, 0, 0), nullptr);
  EXPECT_EQ(transfer->ToHost(1, nullptr, 0, &event), nullptr);
  EXPECT_EQ(device_->WaitEvent(event), nullptr);
}

// More than any device has.
TEST_P(HostTransferTest, SaysWhenThereIsNoMemory) {
  EXPECT_EQ(device_->MakeTransfer(size_t{1} << 46, nullptr), nullptr);
}

INSTANTIATE_TEST_SUITE_P(Devices, HostTransferTest,
                         ::testing::Values(DeviceUnderTest{"cpu", OneCore}, DeviceUnderTest{"cuda", FirstGpu}), NameOf);

}  // namespace
}  // namespace oneflow::testing
