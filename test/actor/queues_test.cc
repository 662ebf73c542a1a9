#include "actor/queues.h"

#include "absl/strings/ascii.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace oneflow {
namespace {

TEST(QueuesTest, EveryQueueHasItsRowUnderItsOwnNameAndNumber) {
  for (const QueueKind& row : kQueues) {
    EXPECT_EQ(row.name, absl::AsciiStrToLower(pb::Queue_Name(row.queue)));
    EXPECT_EQ(&KindOf(row.queue), &row);
    EXPECT_STREQ(QueueName(row.queue), row.name);
  }
  EXPECT_STREQ(QueueName(pb::Queue_ARRAYSIZE), "?");
  EXPECT_STREQ(QueueName(-1), "?");
}

TEST(QueuesTest, TheMainQueueLaunchesForTheOthersSoItLaunchesItself) {
  EXPECT_TRUE(KindOf(MainQueue()).is_main);
  EXPECT_TRUE(KindOf(MainQueue()).launches);
}

TEST(QueuesTest, AnAddressSaysRankAndQueue) {
  for (const int rank : {0, 1, 3071}) {
    for (const QueueKind& row : kQueues) {
      const int address = AddressOf(rank, row.queue);
      EXPECT_EQ(RankAt(address), rank);
      EXPECT_EQ(QueueAt(address), row.queue);
    }
  }
}

}  // namespace
}  // namespace oneflow
