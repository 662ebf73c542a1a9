#include "compiler/select/memory_limit.h"

#include <numeric>

#include "gmock/gmock.h"
#include "test/compiler/select/problems.h"
#include "test/support/status_matchers.h"

namespace oneflow::testing {
namespace {

using ::testing::HasSubstr;

// Four variables of 100 bytes, each whole (option 0) or halved (option 1), which costs 1, 2, 3 and 4 seconds.
SearchProblem Variables() {
  SearchProblem problem;
  for (int i = 0; i < 4; ++i) {
    SearchProblem::Node node;
    node.options = {{{}, {0}, 0}, {{}, {1}, i + 1.0}};
    node.outputs = {i};
    problem.nodes.push_back(node);
  }
  LinkValues(problem);
  AddSingleUnits(problem);
  problem.boxing = [](int, int from, int to) { return from == to ? 0.0 : 1.0; };
  return problem;
}
const MemoryDemand kDemand{std::vector<std::vector<int64_t>>(4, {100, 50}), std::vector<std::vector<int>>(4, {0, 1})};

TEST(MemoryLimitTest, AmpleMemoryChangesNothing) {
  ASSERT_OK_AND_ASSIGN(const SearchResult result, SearchWithin(Variables(), kDemand, 400));
  EXPECT_EQ(result.choice, (std::vector<int>{0, 0, 0, 0}));
  EXPECT_TRUE(result.exact);
}

TEST(MemoryLimitTest, WhatCostsLeastPerByteGivesWay) {
  ASSERT_OK_AND_ASSIGN(const SearchResult result, SearchWithin(Variables(), kDemand, 300));
  EXPECT_EQ(result.choice, (std::vector<int>{1, 1, 0, 0}));
  EXPECT_NEAR(result.seconds, 3, 1e-6);
  EXPECT_FALSE(result.exact);
  EXPECT_EQ(LargestDemand(kDemand, result.choice), 300);
}

TEST(MemoryLimitTest, RanksOfDifferentStagesHaveTheirOwnMemory) {
  MemoryDemand demand = kDemand;
  demand.ranks = {{0}, {0}, {1}, {1}};
  EXPECT_EQ(LargestDemand(demand, {0, 0, 0, 1}), 200);
  ASSERT_OK_AND_ASSIGN(const SearchResult result, SearchWithin(Variables(), demand, 200));
  EXPECT_EQ(result.seconds, 0);
}

TEST(MemoryLimitTest, SaysWhatTheLeastWouldBe) {
  EXPECT_THAT(
      SearchWithin(Variables(), kDemand, 150).status(),
      StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("need 200 bytes on one rank however they are split, "
                                                               "but the limit is 150")));
}

}  // namespace
}  // namespace oneflow::testing
