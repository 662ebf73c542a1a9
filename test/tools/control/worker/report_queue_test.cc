#include "tools/control/worker/report_queue.h"

#include "gmock/gmock.h"

namespace oneflow {
namespace {

pb::TimedValue ValueAt(int step) {
  pb::TimedValue value;
  value.mutable_value()->set_step(step);
  return value;
}

pb::FromWorker PhaseDone() {
  pb::FromWorker message;
  message.mutable_phase_done();
  return message;
}

TEST(ReportQueueTest, AFullBatchLeavesAtOnce) {
  ReportQueue queue(absl::InfiniteDuration());
  for (int i = 0; i < ReportQueue::kBatch + 1; ++i) queue.AddFetched(ValueAt(i));
  EXPECT_EQ(queue.Pop()->fetched().values_size(), ReportQueue::kBatch);
}

TEST(ReportQueueTest, ValuesLeaveBeforeWhatIsSaidAfterThem) {
  ReportQueue queue(absl::InfiniteDuration());
  queue.AddFetched(ValueAt(0));
  queue.AddFetched(ValueAt(1));
  queue.Add(PhaseDone());
  queue.AddFetched(ValueAt(2));
  queue.Close();
  EXPECT_EQ(queue.Pop()->fetched().values_size(), 2);
  EXPECT_TRUE(queue.Pop()->has_phase_done());
  EXPECT_EQ(queue.Pop()->fetched().values(0).value().step(), 2);
  EXPECT_FALSE(queue.Pop().has_value());
}

TEST(ReportQueueTest, ALonelyValueLeavesWhenItHasLingered) {
  ReportQueue queue(absl::ZeroDuration());
  queue.AddFetched(ValueAt(0));
  EXPECT_EQ(queue.Pop()->fetched().values_size(), 1);
}

TEST(ReportQueueTest, WhoHasNothingToTellSaysThatItIsThere) {
  ReportQueue queue(absl::InfiniteDuration(), absl::Milliseconds(1));
  EXPECT_TRUE(queue.Pop()->has_alive());
  pb::FromWorker finished;
  finished.mutable_finished();
  queue.Add(finished);
  queue.Close();
  EXPECT_TRUE(queue.Pop()->has_finished());
  EXPECT_FALSE(queue.Pop().has_value());
}

}  // namespace
}  // namespace oneflow
