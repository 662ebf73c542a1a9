#include "compiler/schedule/check.h"

#include <random>

#include "compiler/schedule/csv.h"
#include "compiler/schedule/generators.h"
#include "gmock/gmock.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

absl::Status CheckCsv(absl::string_view csv) {
  OF_ASSIGN_OR_RETURN(const Schedule schedule, ScheduleFromCsv(csv, "x.csv"));
  return CheckSchedule(schedule);
}

TEST(CheckScheduleTest, AcceptsWhatDataAllows) {
  EXPECT_OK(CheckCsv("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"));
  EXPECT_OK(CheckCsv("0F0,0F1,0I0,0I1,0W1,0W0\n1F0,1B0,1F1,1I1,1W1\n"));  // W in any order
  EXPECT_OK(CheckCsv("0F0,0F1\n1F0,1F1\n"));                              // evaluation
  EXPECT_OK(CheckCsv("0F0,1F0,1B0,0B0\n\n"));                             // a rank without chunks
  EXPECT_OK(CheckCsv("0F0,0F1,1F0,(1F1;1B0)OVERLAP_F_B,0B0,1B1,0B1\n"));
}

TEST(CheckScheduleTest, SaysWhatIsWrong) {
  const BadText kCases[] = {
      {"0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1,1B1\n", "rank 1: '1B1' comes a second time"},
      {"0F0,0F1,0I0,0B0,0B1\n", "rank 0: '0B0' comes a second time"},
      {"0F0,0I0,0W0,0F1,0I1\n", "rank 0: '0W1' is missing"},
      {"0F0,0F1,0B0,0B1\n1F0,1B0\n", "rank 1: '1F1' is missing"},
      {"0B0,0F0\n", "rank 0: '0B0' comes before '0F0'"},
      {"0F0,0W0,0I0\n", "rank 0: '0W0' comes before '0I0'"},
      {"0F1,(0F0;0B0)OVERLAP_F_B,0B1\n", "rank 0: '0B0' comes before '0F0'"},
      {"(0F0;0F1)OVERLAP_F_B,0B0,0B1\n", "rank 0: '0F0' is to run together with the next action; a pair is an F"},
      {"1F0,0F0,1B0,0B0\n", "ranks wait for one another: rank 0 waits with '1F0' for '0F0' of rank 0"},
      // Rank 0 wants a backward first that rank 1 does after a later forward.
      {"0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n",
       "ranks wait for one another: rank 0 waits with '0B0' for '1B0' of rank 1, rank 1 waits with '1F1' for '0F1' of "
       "rank 0"},
      // Rank 0 only waits for the two that wait for each other.
      {"0F0,0I0,0W0,0F1,0B1\n1F0,1F1,1B0,1B1\n2F0,2F1,2B0,2B1\n",
       "ranks wait for one another: rank 0 waits with '0I0' for '1B0' of rank 1, rank 1 waits with '1F1' for '0F1' of "
       "rank 0"},
      {"0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1\n2F1,2F0,2B0,2B1\n", nullptr},
      {"0F0,0F1,0B0,0B1\n1F1,1F0,1B0,1B1\n2F0,2F1,2B0,2B1\n", nullptr},
      {"0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n2F0,2F1,2B0,2B1\n",
       "ranks wait for one another: rank 1 waits with '1B0' for '2B0' of rank 2, rank 2 waits with '2F1' for '1F1' of "
       "rank 1"},
  };
  for (const auto& [csv, message] : kCases) {
    SCOPED_TRACE(csv);
    if (message == nullptr) {
      EXPECT_OK(CheckCsv(csv));
    } else {
      EXPECT_THAT(CheckCsv(csv), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
    }
  }
}

TEST(CheckScheduleTest, NumbersOutOfRangeAreErrors) {
  ASSERT_OK_AND_ASSIGN(const Schedule good, OneFOneB(2, 2));
  Schedule bad = good;
  bad.rank_of_chunk[1] = 2;
  EXPECT_THAT(CheckSchedule(bad), StatusIs(absl::StatusCode::kInvalidArgument, "chunk 1 lies on rank 2 of 2 ranks"));
  bad = good;
  bad.ranks[0][0].chunk = 7;
  EXPECT_THAT(CheckSchedule(bad), StatusIs(absl::StatusCode::kInvalidArgument, "rank 0: '7F0': there are 2 chunks"));
  bad = good;
  bad.ranks[0][0].chunk = 1;
  EXPECT_THAT(CheckSchedule(bad),
              StatusIs(absl::StatusCode::kInvalidArgument, "rank 0: '1F0': chunk 1 lies on rank 1"));
  bad = good;
  bad.ranks[0][0].micro_batch = -1;
  EXPECT_THAT(CheckSchedule(bad),
              StatusIs(absl::StatusCode::kInvalidArgument, "rank 0: '0F-1': there are 2 micro-batches"));
  bad = good;
  bad.ranks[0].back().with_next = true;
  EXPECT_THAT(CheckSchedule(bad), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("run together")));
  bad = good;
  bad.num_micro_batches = 1 << 30;
  EXPECT_THAT(CheckSchedule(bad), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("there are 8 actions")));
}

// By the definition: ranks go round and do what they can until nothing moves.
bool ComesToAnEnd(const Schedule& schedule) {
  std::vector<size_t> next(schedule.ranks.size(), 0);
  std::vector<Action> done;
  const auto has = [&](int chunk, int micro_batch, bool forward) {
    return std::any_of(done.begin(), done.end(), [&](const Action& action) {
      const bool is_forward = action.kind == ActionKind::kForward,
                 is_weight = action.kind == ActionKind::kWeightGradient;
      return action.chunk == chunk && action.micro_batch == micro_batch && !is_weight && is_forward == forward;
    });
  };
  const auto can = [&](const Action& a) {
    if (a.kind == ActionKind::kForward) return a.chunk == 0 || has(a.chunk - 1, a.micro_batch, true);
    if (a.kind == ActionKind::kWeightGradient) return has(a.chunk, a.micro_batch, false);
    return has(a.chunk, a.micro_batch, true) &&
           (a.chunk + 1 == schedule.num_chunks() || has(a.chunk + 1, a.micro_batch, false));
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t r = 0; r < next.size(); ++r) {
      while (next[r] < schedule.ranks[r].size() && can(schedule.ranks[r][next[r]])) {
        done.push_back(schedule.ranks[r][next[r]++]);
        moved = true;
      }
    }
  }
  for (size_t r = 0; r < next.size(); ++r) {
    if (next[r] < schedule.ranks[r].size()) return false;
  }
  return true;
}

TEST(CheckScheduleTest, AgreesWithRanksThatTryUntilNothingMoves) {
  int good = 0, bad = 0;
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    const int p = 1 + random() % 4, m = 1 + random() % 5;
    ASSERT_OK_AND_ASSIGN(Schedule schedule, random() % 2 == 0 ? ZeroBubbleH1(p, m) : ZeroBubbleV(p, m));
    for (int swaps = random() % 6; swaps > 0; --swaps) {
      std::vector<Action>& actions = schedule.ranks[random() % p];
      const size_t at = random() % (actions.size() - 1);
      std::swap(actions[at], actions[at + 1]);
    }
    const bool ends = ComesToAnEnd(schedule);
    ++(ends ? good : bad);
    ASSERT_EQ(CheckSchedule(schedule).ok(), ends) << CheckSchedule(schedule) << "\n" << ScheduleToCsv(schedule);
  }
  EXPECT_GT(good, 300);
  EXPECT_GT(bad, 300);
}

}  // namespace
}  // namespace oneflow
