#include "oneflow_core/queues.h"

#include "gmock/gmock.h"

namespace oneflow {
namespace {

TEST(QueuesTest, ANumberFromOutsideIsAQueueOrNone) {
  for (const QueueKind& row : kQueues) {
    EXPECT_TRUE(IsQueue(row.queue));
    EXPECT_EQ(&QueueKindOf(row.queue), &row);
    EXPECT_STREQ(QueueName(row.queue), row.name);
  }
  for (const int none : {-1, kNumQueues}) {
    EXPECT_FALSE(IsQueue(none));
    EXPECT_STREQ(QueueName(none), "?");
  }
}

TEST(QueuesTest, TheMainQueueLaunchesForTheOthersSoItLaunchesItself) {
  EXPECT_TRUE(QueueKindOf(MainQueue()).is_main);
  EXPECT_TRUE(QueueKindOf(MainQueue()).launches);
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
