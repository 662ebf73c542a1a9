#include "tools/job/median.h"

#include "gmock/gmock.h"

namespace oneflow {
namespace {

TEST(MedianTest, OfAnEvenNumberIsTheMeanOfTheMiddleTwo) {
  EXPECT_EQ(Median({5}), 5);
  EXPECT_EQ(Median({9, 1, 4}), 4);
  EXPECT_EQ(Median({9, 1, 4, 2}), 3);
}

}  // namespace
}  // namespace oneflow
