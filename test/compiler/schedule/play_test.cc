#include "compiler/schedule/play.h"

#include <random>

#include "compiler/schedule/check.h"
#include "compiler/schedule/csv.h"
#include "compiler/schedule/generators.h"
#include "gmock/gmock.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

MATCHER_P2(Spans, begin, end, "") { return arg.begin == begin && arg.end == end; }

TEST(PlayTest, AnActionBeginsWhenItsRankIsFreeAndItsInputHasCome) {
  ASSERT_OK_AND_ASSIGN(const Schedule schedule, ScheduleFromCsv("0F0,0F1,0I0,0W0,0B1\n1F0,1B0,1F1,1B1\n", "x"));
  ScheduleCosts costs = EqualCosts(2, {.forward = 1, .input_gradient = 2, .weight_gradient = 3, .activations = 10});
  costs.transfers = {0.5};
  const Timeline timeline = Play(schedule, costs);
  EXPECT_THAT(timeline.ranks[0], ElementsAre(Spans(0, 1), Spans(1, 2), Spans(8, 10), Spans(10, 13), Spans(14, 19)));
  EXPECT_THAT(timeline.ranks[1], ElementsAre(Spans(1.5, 2.5), Spans(2.5, 7.5), Spans(7.5, 8.5), Spans(8.5, 13.5)));
  EXPECT_EQ(timeline.makespan, 19);
  EXPECT_THAT(timeline.idle, ElementsAre(7, 7));
  EXPECT_THAT(timeline.peak, ElementsAre(20, 10));
  EXPECT_THAT(timeline.Bubble(), DoubleEq(7. / 12));
}

TEST(PlayTest, NothingTravelsWithinARank) {
  ASSERT_OK_AND_ASSIGN(const Schedule schedule, ScheduleFromCsv("0F0,1F0,1B0,0B0\n", "x"));
  ScheduleCosts costs = EqualCosts(2, {});
  costs.transfers = {100};
  EXPECT_EQ(Play(schedule, costs).makespan, 6);
}

TEST(PlayTest, APairBeginsWhenBothCanAndTakesItsPartOfBoth) {
  ASSERT_OK_AND_ASSIGN(const Schedule schedule, ScheduleFromCsv("0F0,1F0,(0F1;1B0)OVERLAP_F_B,1F1,1B1,0B0,0B1\n", "x"));
  ASSERT_OK(CheckSchedule(schedule));
  ScheduleCosts costs = EqualCosts(2, {.forward = 1, .input_gradient = 1, .weight_gradient = 1});
  costs.together = 2. / 3;
  const Timeline timeline = Play(schedule, costs);
  EXPECT_THAT(timeline.ranks[0], ElementsAre(Spans(0, 1), Spans(1, 2), Spans(2, 4), Spans(2, 4), Spans(4, 5),
                                             Spans(5, 7), Spans(7, 9), Spans(9, 11)));
  EXPECT_THAT(timeline.peak, ElementsAre(3));
}

TEST(PlayTest, UnevenChunksKeepTheirOwnBytes) {
  ASSERT_OK_AND_ASSIGN(const Schedule schedule, ScheduleFromCsv("0F0,1F0,1B0,0B0\n2F0\n", "x"));
  ScheduleCosts costs = EqualCosts(3, {});
  costs.chunks[0].activations = int64_t{1} << 40;
  costs.chunks[1].activations = 3;
  EXPECT_THAT(PeakActivations(schedule, costs), ElementsAre((int64_t{1} << 40) + 3, 1));
}

// Of whatever order and costs: ranks do one thing at a time, in their order, and nothing begins before it can.
TEST(PlayTest, BeginsNothingTooSoonAndNothingTooLate) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    const int p = 1 + random() % 5, m = 1 + random() % 9;
    ASSERT_OK_AND_ASSIGN(const Schedule schedule, random() % 2 == 0 ? ZeroBubbleV(p, m) : Interleaved1F1B(p, 2, m));
    ScheduleCosts costs = EqualCosts(schedule.num_chunks(), {});
    const auto some = [&] { return static_cast<double>(random() % 64) / 8; };  // sums of these are exact
    for (ChunkCosts& chunk : costs.chunks) chunk = {some(), some(), some()};
    for (int c = 0; c + 1 < schedule.num_chunks(); ++c) costs.transfers.push_back(some());
    const Timeline timeline = Play(schedule, costs);
    std::map<std::string, double> ends;  // by action, "I" for the half of B too
    for (int r = 0; r < p; ++r) {
      for (size_t i = 0; i < schedule.ranks[r].size(); ++i) {
        Action action = schedule.ranks[r][i];
        ASSERT_EQ(timeline.ranks[r][i].end - timeline.ranks[r][i].begin,
                  costs.chunks[action.chunk].Seconds(action.kind));
        if (action.kind == ActionKind::kBackward) action.kind = ActionKind::kInputGradient;
        ends[ToString(action)] = timeline.ranks[r][i].end;
      }
    }
    for (int r = 0; r < p; ++r) {
      for (size_t i = 0; i < schedule.ranks[r].size(); ++i) {
        const Action& action = schedule.ranks[r][i];
        double soonest = i == 0 ? 0 : timeline.ranks[r][i - 1].end;
        const bool forward = action.kind == ActionKind::kForward;
        const int other = forward ? action.chunk - 1 : action.chunk + 1;
        if (action.kind != ActionKind::kWeightGradient && other >= 0 && other < schedule.num_chunks()) {
          const Action needed{other, action.micro_batch, forward ? ActionKind::kForward : ActionKind::kInputGradient};
          const double travel = schedule.rank_of_chunk[other] == r ? 0 : costs.transfers[std::min(other, action.chunk)];
          soonest = std::max(soonest, ends.at(ToString(needed)) + travel);
        }
        ASSERT_EQ(timeline.ranks[r][i].begin, soonest) << ToString(action);
      }
    }
  }
}

TEST(CheckCostsTest, SaysWhatIsWrong) {
  ScheduleCosts costs = EqualCosts(2, {});
  EXPECT_OK(CheckCosts(costs, 2));
  EXPECT_THAT(CheckCosts(costs, 3),
              StatusIs(absl::StatusCode::kInvalidArgument, "costs are of 2 chunks, and there are 3"));
  costs.transfers = {1, 2};
  EXPECT_THAT(CheckCosts(costs, 2), StatusIs(absl::StatusCode::kInvalidArgument,
                                             "there are 2 costs of transfers between 2 chunks, and not 1"));
  costs.transfers = {-1};
  EXPECT_THAT(CheckCosts(costs, 2),
              StatusIs(absl::StatusCode::kInvalidArgument, "chunk 0: an action or a transfer takes -1 s"));
  costs.transfers.clear();
  costs.chunks[1].forward = std::nan("");
  EXPECT_THAT(CheckCosts(costs, 2), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("chunk 1: an action")));
  costs.chunks[1] = {.activations = -5};
  EXPECT_THAT(CheckCosts(costs, 2), StatusIs(absl::StatusCode::kInvalidArgument, "chunk 1: keeps -5 of activations"));
}

}  // namespace
}  // namespace oneflow
