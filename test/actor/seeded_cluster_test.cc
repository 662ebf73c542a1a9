// What holds of a job whatever the network does to it, over thousands of runs: delays change nothing, nothing that was
// lost, came twice or out of order is computed with unnoticed, and who is to blame is found.
#include "test/actor/seeded_cluster.h"

#include <functional>

#include "absl/strings/str_cat.h"
#include "actor/program_check.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "test/actor/sim/random_plan.h"
#include "test/actor/test_plan.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

constexpr int kRanks = 8, kStepsOfRanks = 4;
constexpr uint32_t kSeeds = 1000;

// Four stages of two replicas: micro-batches go forward and back, gradients of replicas are added, variables updated.
pb::Program Training() {
  constexpr int kStages = 4, kMicroBatches = 3;
  TestPlan plan({0, 1, 2, 3, 4, 5, 6, 7}, kMicroBatches);
  int forward[kStages][2], backward[kStages][2], add[kStages][2], update[kStages][2];
  for (int s = 0; s < kStages; ++s) {
    for (int d = 0; d < 2; ++d) {
      const int rank = 2 * s + d;
      forward[s][d] = plan.Actor(rank, absl::StrCat("forward", rank), kMicroBatches);
      backward[s][d] = plan.Actor(rank, absl::StrCat("backward", rank), kMicroBatches, /*priority=*/1);
      add[s][d] = plan.Actor(rank, absl::StrCat("add", rank));
      update[s][d] = plan.Actor(rank, absl::StrCat("update", rank));
    }
  }
  for (int s = 0; s < kStages; ++s) {
    for (int d = 0; d < 2; ++d) {
      const std::string at = absl::StrCat(s, d);
      if (s + 1 < kStages) plan.Register("x" + at, {forward[s][d]}, {{forward[s + 1][d]}}, 2);
      if (s > 0) plan.Register("dx" + at, {backward[s][d]}, {{backward[s - 1][d]}}, 2);
      plan.Register("kept" + at, {forward[s][d]}, {{backward[s][d]}}, kStages - s);
      plan.Register("dw" + at, {backward[s][d], kMicroBatches}, {{add[s][0]}, {add[s][1]}}, 1);
      plan.Register("sum" + at, {add[s][d]}, {{update[s][d]}}, 1);
      plan.Register("w" + at, {update[s][d]}, {{forward[s][d], kMicroBatches}}, 1, 4, /*initially_filled=*/1);
    }
  }
  return plan.set();
}

pb::Program AnyPlan(uint32_t seed) {
  TestPlan plan = RandomPlan(seed, kRanks);
  for (int rank = 0; rank < kRanks; ++rank) plan.set().mutable_ranks(rank)->set_process(rank);
  return plan.set();
}

// Calls fn(program, what it computes, seed), which says whether its fault came to pass, with the training plan and with
// plans drawn at random that come to an end.
template <typename Fn>
void ForEverySeed(const Fn& fn) {
  const pb::Program training = Training();
  ASSERT_OK(CheckProgram(training, kRanks));
  const ClusterEnd trained = RunSeeded(training, kStepsOfRanks, 0, Fault::kNone);
  ASSERT_TRUE(trained.all_done) << trained.error << trained.diagnosis;
  int live = 0, struck = 0;
  for (uint32_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    struck += fn(training, trained.digests, seed);
    const pb::Program drawn = AnyPlan(seed);
    const ClusterEnd end = RunSeeded(drawn, kStepsOfRanks, 0, Fault::kNone);
    if (end.all_done) struck += fn(drawn, end.digests, seed);
    live += end.all_done;
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(live, static_cast<int>(kSeeds / 10));
  EXPECT_GT(struck, static_cast<int>(kSeeds / 2));
}

using Digests = std::map<std::string, std::vector<uint64_t>>;

TEST(SeededClusterTest, DelaysAndTurnsChangeNothing) {
  ForEverySeed([](const pb::Program& program, const Digests& expected, uint32_t seed) {
    const ClusterEnd end = RunSeeded(program, kStepsOfRanks, seed, Fault::kNone);
    EXPECT_TRUE(end.all_done) << end.error << end.diagnosis;
    EXPECT_EQ(end.digests, expected);
    return true;
  });
}

// As above, with `fault`; `check` looks at how each run ended.
void ForEveryFault(Fault fault, const std::function<void(const ClusterEnd& end, const Digests& expected)>& check) {
  ForEverySeed([&](const pb::Program& program, const Digests& expected, uint32_t seed) {
    const ClusterEnd end = RunSeeded(program, kStepsOfRanks, seed, fault);
    check(end, expected);
    return !end.struck.empty();
  });
}

TEST(SeededClusterTest, AFrameThatIsLostIsNamedByAnErrorOrTheDiagnosis) {
  ForEveryFault(Fault::kLost, [](const ClusterEnd& end, const Digests& expected) {
    EXPECT_EQ(end.all_done, end.struck.empty());
    if (end.all_done) {
      EXPECT_EQ(end.digests, expected);
    } else if (end.error.ok()) {
      EXPECT_THAT(end.diagnosis, HasSubstr(absl::StrCat("of ", end.struck, " '")));
      EXPECT_THAT(end.diagnosis, HasSubstr("which is on its way, or lost"));
    } else {
      EXPECT_THAT(end.error.message(), HasSubstr(absl::StrCat(end.struck, " ")));
    }
  });
}

// Of slots that several read, the second copy may pass for what another reader says: then that one's is too many.
TEST(SeededClusterTest, AFrameThatComesTwiceIsAnError) {
  ForEveryFault(Fault::kTwice, [](const ClusterEnd& end, const Digests& expected) {
    EXPECT_EQ(end.error.ok(), end.struck.empty());
    if (end.error.ok()) {
      EXPECT_EQ(end.digests, expected);
    } else {
      EXPECT_THAT(end.error.message(), HasSubstr(absl::StrCat(end.struck, " ")));
    }
  });
}

TEST(SeededClusterTest, WhatComesOutOfOrderGivesTheSameOrAnError) {
  ForEveryFault(Fault::kOutOfOrder, [](const ClusterEnd& end, const Digests& expected) {
    EXPECT_EQ(end.all_done, end.error.ok()) << end.diagnosis;
    if (end.all_done) {
      EXPECT_EQ(end.digests, expected);
    } else {
      EXPECT_THAT(end.error.message(), HasSubstr(absl::StrCat(end.struck, " ")));
    }
  });
}

TEST(SeededClusterTest, OthersComeToRestAndBlameTheDead) {
  ForEveryFault(Fault::kDead, [](const ClusterEnd& end, const Digests& expected) {
    EXPECT_OK(end.error);
    if (end.all_done) {
      EXPECT_EQ(end.digests, expected);
    } else {
      EXPECT_THAT(end.diagnosis, HasSubstr(absl::StrCat(end.struck, " is dead")));
    }
  });
}

}  // namespace
}  // namespace oneflow
