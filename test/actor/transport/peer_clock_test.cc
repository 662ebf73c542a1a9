#include "actor/transport/peer_clock.h"

#include <cstdlib>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace oneflow {
namespace {

TEST(PeerClockTest, IsRightToHalfARoundTripHoweverTheWaysDiffer) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 10'000; ++i) {
    const int64_t ahead = static_cast<int64_t>(random() % 2'000'000'000'000) - 1'000'000'000'000;
    const int64_t there = static_cast<int64_t>(random() % 1'000'000), back = static_cast<int64_t>(random() % 1'000'000);
    const int64_t asked = static_cast<int64_t>(random() % 1'000'000'000);
    const ClockReading reading = ReadClock(asked, asked + there - ahead, asked + there + back);
    ASSERT_LE(std::abs(reading.ahead_ns - ahead), reading.error_ns);
    ASSERT_LE(reading.error_ns, (there + back + 1) / 2);
  }
}

TEST(PeerClockTest, HasANameThatStays) {
  EXPECT_EQ(SteadyClockName(), SteadyClockName());
  EXPECT_NE(SteadyClockName(), "");
}

}  // namespace
}  // namespace oneflow
