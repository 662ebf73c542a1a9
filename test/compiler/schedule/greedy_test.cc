#include "compiler/schedule/greedy.h"

#include <random>
#include <set>

#include "compiler/schedule/check.h"
#include "compiler/schedule/generators.h"
#include "compiler/schedule/play.h"
#include "gmock/gmock.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

double Between(std::mt19937& random, double low, double high) { return low + (high - low) * (random() % 4096) / 4096; }

ListProblem OneChunkARank(std::mt19937& random) {
  ListProblem problem{.num_ranks = static_cast<int>(1 + random() % 8),
                      .num_micro_batches = static_cast<int>(1 + random() % 32)};
  problem.rank_of_chunk = RoundRobin(problem.num_ranks, 1);
  // All alike, unequal by a little, or anything goes; values travel for nothing or for up to an action's time.
  const double spread = random() % 3 / 2.;
  const ChunkCosts typical{Between(random, 0.2, 2), Between(random, 0.2, 2), Between(random, 0.2, 2)};
  for (int c = 0; c < problem.num_ranks; ++c) {
    const auto about = [&](double x) { return x * Between(random, 1 - 0.9 * spread, 1 + spread); };
    problem.costs.chunks.push_back(
        {about(typical.forward), about(typical.input_gradient), about(typical.weight_gradient)});
  }
  if (random() % 2 == 0) problem.costs.transfers.assign(problem.num_ranks - 1, Between(random, 0, 1));
  return problem;
}

TEST(GreedyScheduleTest, IsNeverLongerThanZeroBubbleH1WithItsMemory) {
  for (uint32_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    ListProblem problem = OneChunkARank(random);
    ASSERT_OK_AND_ASSIGN(const Schedule h1, ZeroBubbleH1(problem.num_ranks, problem.num_micro_batches));
    problem.most_activations = PeakActivations(h1, problem.costs);
    ASSERT_OK_AND_ASSIGN(const GreedySchedule greedy, MakeGreedySchedule(problem));
    ASSERT_OK(CheckSchedule(greedy.schedule));
    const Timeline timeline = Play(greedy.schedule, problem.costs);
    EXPECT_EQ(timeline.makespan, greedy.makespan);
    EXPECT_LE(timeline.makespan, Play(h1, problem.costs).makespan);
    for (int r = 0; r < problem.num_ranks; ++r) EXPECT_LE(timeline.peak[r], problem.most_activations[r]);
  }
}

// For all sizes, with equal costs and with those of the goldens of ZB-H1 with unequal ones.
TEST(GreedyScheduleTest, IsNeverLongerThanZeroBubbleH1OfAnySize) {
  for (int p = 1; p <= 8; ++p) {
    for (int m = 1; m <= 64; m += m < 18 ? 1 : 5) {
      for (const double weight : {1., 0.8}) {
        ListProblem problem{.num_ranks = p, .rank_of_chunk = RoundRobin(p, 1), .num_micro_batches = m};
        problem.costs = EqualCosts(p, {.forward = 1, .input_gradient = 2 - weight, .weight_gradient = weight});
        ASSERT_OK_AND_ASSIGN(const Schedule h1, ZeroBubbleH1(p, m));
        problem.most_activations = PeakActivations(h1, problem.costs);
        ASSERT_OK_AND_ASSIGN(const GreedySchedule greedy, MakeGreedySchedule(problem));
        ASSERT_LE(greedy.makespan, Play(h1, problem.costs).makespan) << "p=" << p << " m=" << m;
        const std::vector<int64_t> peaks = PeakActivations(greedy.schedule, problem.costs);
        for (int r = 0; r < p; ++r) ASSERT_LE(peaks[r], problem.most_activations[r]) << "p=" << p << " m=" << m;
      }
    }
  }
}

// Chunks anywhere, of unequal sizes, with any cap that has room for a micro-batch: ranks never wait for one another.
TEST(GreedyScheduleTest, ComesToAnEndWhateverTheChunksAndCaps) {
  for (uint32_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    ListProblem problem = OneChunkARank(random);
    problem.rank_of_chunk.clear();
    problem.costs = {};
    const int num_chunks = 1 + random() % 12;
    for (int c = 0; c < num_chunks; ++c) {
      problem.rank_of_chunk.push_back(random() % problem.num_ranks);
      problem.costs.chunks.push_back(
          {Between(random, 0, 2), Between(random, 0, 2), Between(random, 0, 2), static_cast<int64_t>(random() % 5)});
    }
    problem.most_activations = ActivationsOfOne(problem.num_ranks, problem.rank_of_chunk, problem.costs);
    for (int64_t& most : problem.most_activations) most += random() % 10;
    problem.backward = random() % 2 == 0 ? ListProblem::Backward::kSplit : ListProblem::Backward::kWhole;
    ASSERT_OK_AND_ASSIGN(const GreedySchedule greedy, MakeGreedySchedule(problem));
    ASSERT_OK(CheckSchedule(greedy.schedule));
    const Timeline timeline = Play(greedy.schedule, problem.costs);
    for (int r = 0; r < problem.num_ranks; ++r) ASSERT_LE(timeline.peak[r], problem.most_activations[r]);
  }
}

// Here one rank has more to do, values travel for a while, and I takes twice as long as W.
TEST(GreedyScheduleTest, IsShorterWhereRulesAssumeOtherCosts) {
  ListProblem problem{.num_ranks = 4, .rank_of_chunk = RoundRobin(4, 1), .num_micro_batches = 16};
  problem.costs = EqualCosts(4, {.forward = 1, .input_gradient = 1.5, .weight_gradient = 0.75});
  problem.costs.chunks[1] = {.forward = 1.25, .input_gradient = 1.875, .weight_gradient = 0.9375};
  problem.costs.transfers.assign(3, 0.25);
  problem.most_activations = ActivationsLike1F1B(problem);
  ASSERT_OK_AND_ASSIGN(const GreedySchedule greedy, MakeGreedySchedule(problem));
  ASSERT_OK_AND_ASSIGN(const Schedule h1, ZeroBubbleH1(4, 16));
  ASSERT_OK_AND_ASSIGN(const Schedule one, OneFOneB(4, 16));
  EXPECT_LT(greedy.makespan, Play(h1, problem.costs).makespan);
  EXPECT_LT(greedy.makespan, Play(one, problem.costs).makespan);
  ASSERT_OK_AND_ASSIGN(const GreedySchedule again, MakeGreedySchedule(problem));
  EXPECT_EQ(again.schedule, greedy.schedule);
}

// None of the policies is the best for all, so several are tried, and what each of their numbers says is heeded.
TEST(GreedyScheduleTest, SeveralPoliciesWin) {
  std::set<std::string> winners;
  int patient = 0, ahead = 0, in_turn = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    ListProblem problem = OneChunkARank(random);
    problem.most_activations = ActivationsLike1F1B(problem);
    ASSERT_OK_AND_ASSIGN(const GreedySchedule greedy, MakeGreedySchedule(problem));
    winners.insert(greedy.from);
    const auto makespan = [&](const ListPolicy& policy) {
      return Play(MakeListSchedule(problem, policy), problem.costs).makespan;
    };
    const double plain = makespan({.patience = 0, .ahead = 2, .in_turn = false});
    EXPECT_LE(greedy.makespan, plain);
    patient += makespan({.patience = 1, .ahead = 2, .in_turn = false}) != plain;
    ahead += makespan({.patience = 0, .ahead = 1, .in_turn = false}) != plain;
    in_turn += makespan({.patience = 0, .ahead = 2, .in_turn = true}) != plain;
  }
  EXPECT_GE(winners.size(), 5u);
  EXPECT_GT(patient, 20);
  EXPECT_GT(ahead, 20);
  EXPECT_GT(in_turn, 20);
}

TEST(GreedyScheduleTest, TakesLargePipelines) {
  ListProblem problem{.num_ranks = 64, .rank_of_chunk = RoundRobin(64, 1), .num_micro_batches = 512};
  problem.costs = EqualCosts(64, {.forward = 1, .input_gradient = 1.2, .weight_gradient = 0.8});
  problem.most_activations = ActivationsLike1F1B(problem);
  ASSERT_OK_AND_ASSIGN(const GreedySchedule greedy, MakeGreedySchedule(problem));
  EXPECT_OK(CheckSchedule(greedy.schedule));
  EXPECT_NEAR(greedy.makespan, 512 * 3 + 63 * (1 + 1.2 - 0.8), 1e-6);  // (p - 1)(F + B - 2W)
}

TEST(GreedyScheduleTest, ErrorsSayWhatIsWrong) {
  ListProblem problem{
      .num_ranks = 2, .rank_of_chunk = {0, 1, 0, 1}, .num_micro_batches = 4, .costs = EqualCosts(4, {})};
  problem.most_activations = {2, 1};
  EXPECT_THAT(MakeGreedySchedule(problem), StatusIs(absl::StatusCode::kResourceExhausted,
                                                    "rank 1: activations of one micro-batch take 2, and the cap is 1"));
  problem.most_activations = {2};
  EXPECT_THAT(MakeGreedySchedule(problem),
              StatusIs(absl::StatusCode::kInvalidArgument, "there are caps of activations for 1 of 2 ranks"));
  problem.rank_of_chunk[2] = 3;
  EXPECT_THAT(MakeGreedySchedule(problem),
              StatusIs(absl::StatusCode::kInvalidArgument, "chunk 2 lies on rank 3 of 2 ranks"));
}

}  // namespace
}  // namespace oneflow
