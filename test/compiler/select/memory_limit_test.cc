#include "compiler/select/memory_limit.h"

#include <numeric>

#include "gmock/gmock.h"
#include "test/compiler/select/problems.h"
#include "test/support/status_matchers.h"

namespace oneflow::testing {
namespace {

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
  problem.boxing = [](int, int from, int to) { return from == to ? Cost() : Cost{0, 1}; };
  return problem;
}

MemoryDemand Demand() {
  MemoryDemand demand;
  for (int node = 0; node < 4; ++node) demand.made.push_back({node, MemoryKind::kVariable, {100, 50}});
  demand.place = {0, 0, 0, 0};
  demand.ranks = {{0, 1}};
  return demand;
}

TEST(MemoryLimitTest, AmpleMemoryChangesNothing) {
  ASSERT_OK_AND_ASSIGN(const SearchResult result, SearchWithin(Variables(), {{Demand(), 400}}));
  EXPECT_EQ(result.choice, (std::vector<int>{0, 0, 0, 0}));
  EXPECT_TRUE(result.exact);
}

TEST(MemoryLimitTest, WhatCostsLeastPerByteGivesWay) {
  ASSERT_OK_AND_ASSIGN(const SearchResult result, SearchWithin(Variables(), {{Demand(), 300}}));
  EXPECT_EQ(result.choice, (std::vector<int>{1, 1, 0, 0}));
  EXPECT_NEAR(result.cost.seconds, 3, 1e-6);
  EXPECT_FALSE(result.exact);
  EXPECT_EQ(LargestUse(Variables(), Demand(), result.choice).total(), 300);
}

TEST(MemoryLimitTest, RanksOfDifferentStagesHaveTheirOwnMemory) {
  MemoryDemand demand = Demand();
  demand.place = {0, 0, 1, 1};
  demand.ranks = {{0}, {1}};
  EXPECT_EQ(LargestUse(Variables(), demand, {0, 0, 0, 1}).total(), 200);
  ASSERT_OK_AND_ASSIGN(const SearchResult result, SearchWithin(Variables(), {{demand, 200}}));
  EXPECT_EQ(result.cost.seconds, 0);
}

TEST(MemoryLimitTest, OfTwoLimitsBothAreMet) {
  MemoryDemand first_two = Demand();
  first_two.made.resize(2);
  ASSERT_OK_AND_ASSIGN(const SearchResult result, SearchWithin(Variables(), {{Demand(), 350}, {first_two, 100}}));
  EXPECT_LE(LargestUse(Variables(), first_two, result.choice).total(), 100);
  EXPECT_LE(LargestUse(Variables(), Demand(), result.choice).total(), 350);
}

TEST(MemoryLimitTest, SaysWhatTheLeastWouldBe) {
  EXPECT_THAT(
      SearchWithin(Variables(), {{Demand(), 150}}).status(),
      StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("need 200 bytes on one rank however they are split, "
                                                               "but the limit is 150")));
}

// A node that makes a value in either type, and three that read it: two in either, the last as 1, which costs them
// nothing.
SearchProblem Readers() {
  SearchProblem problem = Chain(1, 1);
  for (int reader = 1; reader <= 3; ++reader) {
    SearchProblem::Node node;
    node.inputs = {0};
    node.outputs = {reader};
    if (reader < 3) node.options.push_back({{0}, {0}, 0});
    node.options.push_back({{1}, {0}, reader < 3 ? 0.1 : 0});
    problem.nodes.push_back(node);
  }
  Relink(problem);
  return problem;
}

MemoryDemand OfReaders(MemoryKind kind, bool only_boxed) {
  MemoryDemand demand;
  demand.read.push_back({0, kind, {{1, 0}, {2, 0}, {3, 0}}, only_boxed});
  demand.size = [](int, int dist) { return dist == 0 ? 100 : 60; };
  demand.place = {0, 0, 0, 0};
  demand.ranks = {{0}};
  return demand;
}

TEST(MemoryLimitTest, WhatReadersHoldCountsOncePerType) {
  const MemoryDemand held = OfReaders(MemoryKind::kActivation, false), copies = OfReaders(MemoryKind::kCopy, true);
  const SearchProblem problem = Readers();
  EXPECT_EQ(LargestUse(problem, held, {0, 0, 0, 0}).total(), 160);
  EXPECT_EQ(LargestUse(problem, held, {0, 1, 1, 0}).total(), 60);
  EXPECT_EQ(LargestUse(problem, copies, {0, 0, 0, 0}).total(), 60) << "as it is made it is no copy";
  EXPECT_EQ(LargestUse(problem, copies, {1, 0, 0, 0}).total(), 100);
  EXPECT_EQ(LargestUse(problem, copies, {1, 1, 1, 0}).total(), 0);
}

TEST(MemoryLimitTest, ReadersAgreeWhereMemoryIsShort) {
  const SearchProblem problem = Readers();
  for (const bool copies : {false, true}) {
    const MemoryDemand demand = OfReaders(copies ? MemoryKind::kCopy : MemoryKind::kActivation, copies);
    ASSERT_OK_AND_ASSIGN(const SearchResult ample, SearchWithin(problem, {{demand, 200}}));
    ASSERT_OK_AND_ASSIGN(const SearchResult tight, SearchWithin(problem, {{demand, copies ? 0 : 60}}));
    EXPECT_LE(LargestUse(problem, demand, tight.choice).total(), copies ? 0 : 60);
    EXPECT_NEAR(tight.cost.seconds, 0.2, 1e-9) << "two readers do what is not the fastest";
    EXPECT_LE(ample.cost.seconds, tight.cost.seconds);
  }
  EXPECT_THAT(SearchWithin(problem, {{OfReaders(MemoryKind::kActivation, false), 50}}).status(),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("memory: 60 bytes are needed on one rank however tensors lie (activations 60), "
                                 "but the limit is 50")));
}

}  // namespace
}  // namespace oneflow::testing
