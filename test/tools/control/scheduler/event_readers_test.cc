#include "tools/control/scheduler/event_readers.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace oneflow {
namespace {

constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
const absl::Time kNow = absl::UnixEpoch();

TEST(EventReadersTest, WhatNobodyReadsIsReadByEveryone) {
  EventReaders readers;
  readers.Enter(/*job=*/1, /*next=*/10'000);
  EXPECT_EQ(readers.FirstUnread(2, kNow), kAll);
}

TEST(EventReadersTest, TheSlowestReaderOfAJobDecides) {
  EventReaders readers;
  const EventReaders::Handle slow = readers.Enter(1, 10'000);
  readers.Enter(1, 20'000);
  readers.Enter(2, 5'000);
  EXPECT_EQ(readers.FirstUnread(1, kNow), 10'000 - kOnTheWay);
  EventReaders::Move(slow, 30'000);
  EXPECT_EQ(readers.FirstUnread(1, kNow), 20'000 - kOnTheWay);
}

TEST(EventReadersTest, AReaderThatHasLeftMayComeBackForAWhile) {
  EventReaders readers;
  readers.Leave(readers.Enter(1, 10'000), kNow);
  EXPECT_EQ(readers.FirstUnread(1, kNow + kReaderReturns), 10'000 - kOnTheWay);
  EXPECT_EQ(readers.FirstUnread(1, kNow + kReaderReturns + absl::Seconds(1)), kAll);
}

TEST(EventReadersTest, SomeoneOfAFormerSchedulerMayComeAndHaveReadNothing) {
  EventReaders readers;
  readers.Expect(1, 0, kNow);
  EXPECT_EQ(readers.FirstUnread(1, kNow), -kOnTheWay);
  readers.Expect(2, 9'000, kNow + 2 * kReaderReturns);  // nobody waits for the first any more
  EXPECT_EQ(readers.FirstUnread(1, kNow + 2 * kReaderReturns), kAll);
  EXPECT_EQ(readers.FirstUnread(2, kNow + 2 * kReaderReturns), 9'000 - kOnTheWay);
}

}  // namespace
}  // namespace oneflow
