#include "actor/end_limit.h"

#include <atomic>
#include <future>

#include "gtest/gtest.h"

namespace oneflow {
namespace {

TEST(EndLimitTest, AnEndInTimeIsNoMatter) {
  std::atomic<bool> ended = false;
  {
    EndLimit limit;
    limit.Start(std::chrono::hours(1), [&] { ended = true; });
  }
  EXPECT_FALSE(ended);
}

TEST(EndLimitTest, AnEndThatDoesNotComeIsCalledFor) {
  std::promise<void> called;
  EndLimit limit;
  limit.Start(std::chrono::milliseconds(0), [&] { called.set_value(); });
  called.get_future().wait();
}

TEST(EndLimitTest, WithoutAStartThereIsNone) { EndLimit limit; }

}  // namespace
}  // namespace oneflow
