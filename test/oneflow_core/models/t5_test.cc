#include "oneflow_core/models/t5.h"

#include <utility>

#include "gtest/gtest.h"

namespace oneflow {
namespace {

// Of transformers' T5Attention.
TEST(T5Test, GroupsDistancesAsTheAuthorsDo) {
  const std::pair<int64_t, int64_t> kBoth[] = {{-128, 15}, {-20, 10}, {-9, 8},  {0, 0},   {7, 23},
                                               {8, 24},    {16, 26},  {64, 30}, {999, 31}};
  for (const auto& [distance, group] : kBoth) EXPECT_EQ(T5Bucket(distance, false, 32, 128), group) << distance;
  const std::pair<int64_t, int64_t> kCausal[] = {{-128, 31}, {-64, 26}, {-20, 17}, {-3, 3}, {0, 0}, {5, 0}};
  for (const auto& [distance, group] : kCausal) EXPECT_EQ(T5Bucket(distance, true, 32, 128), group) << distance;
}

}  // namespace
}  // namespace oneflow
