#include "compiler/schedule/named_schedule.h"

#include "compiler/schedule/check.h"
#include "compiler/schedule/csv.h"
#include "compiler/schedule/generators.h"
#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"

namespace oneflow {
namespace {

TEST(MakeScheduleTest, KnowsTheirNames) {
  const struct {
    const char* name;
    int chunks_per_rank;
    absl::StatusOr<Schedule> expected;
  } kCases[] = {
      {"gpipe", 0, GPipe(2, 4)},
      {"1f1b", 1, OneFOneB(2, 4)},
      {"interleaved", 0, Interleaved1F1B(2, 2, 4, 2)},
      {"interleaved", 3, Interleaved1F1B(2, 3, 4, 2)},
      {"zb-h1", 0, ZeroBubbleH1(2, 4)},
      {"zb-v", 2, ZeroBubbleV(2, 4)},
      {"dualpipe-v", 0, DualPipeV(2, 4)},
      {"forward", 2, ForwardOnly(2, RoundRobin(2, 2), 4)},
  };
  for (const auto& [name, chunks_per_rank, expected] : kCases) {
    SCOPED_TRACE(name);
    ASSERT_OK_AND_ASSIGN(
        const Schedule schedule,
        MakeSchedule({.name = name, .num_ranks = 2, .num_micro_batches = 4, .chunks_per_rank = chunks_per_rank}));
    EXPECT_EQ(schedule, *expected);
    EXPECT_OK(CheckSchedule(schedule));
  }
}

TEST(MakeScheduleTest, GreedyTakesChunksByHandAndUnequalNumbersOfThem) {
  const ScheduleRequest request{
      .name = "greedy", .num_ranks = 2, .num_micro_batches = 4, .rank_of_chunk = {0, 1, 1, 0, 1}};
  ASSERT_OK_AND_ASSIGN(const Schedule schedule, MakeSchedule(request));
  EXPECT_OK(CheckSchedule(schedule));
  EXPECT_THAT(schedule.rank_of_chunk, ElementsAre(0, 1, 1, 0, 1));
}

TEST(MakeScheduleTest, ReadsFiles) {
  const TestDir dir;
  ScheduleRequest request{.num_ranks = 2, .num_micro_batches = 1};
  request.name = "file:" + dir.Write("good.csv", "0F0,2F0,2B0,0B0\n1F0,1B0\n");
  ASSERT_OK_AND_ASSIGN(const Schedule schedule, MakeSchedule(request));
  EXPECT_THAT(schedule.rank_of_chunk, ElementsAre(0, 1, 0));
  request.num_micro_batches = 2;
  EXPECT_THAT(MakeSchedule(request),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("good.csv: is a schedule of 2 ranks and 1 micro-batches, and there are 2 and 2")));
  request.name = "file:" + dir.Write("dead.csv", "0B0,0F0\n");
  EXPECT_THAT(MakeSchedule(request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("dead.csv: rank 0: '0B0' comes before '0F0'")));
  request.name = "file:" + dir.File("none.csv");
  EXPECT_THAT(MakeSchedule(request), StatusIs(absl::StatusCode::kNotFound, HasSubstr("none.csv")));
}

TEST(MakeScheduleTest, SaysWhatASchedulesTakes) {
  const struct {
    ScheduleRequest request;
    const char* message;
  } kCases[] = {
      {{.name = "1f2b"},
       "there is no schedule '1f2b'; there are gpipe, 1f1b, interleaved, zb-h1, zb-v, dualpipe-v, forward, greedy and "
       "file:PATH"},
      {{.name = "zb-v", .num_ranks = 2, .chunks_per_rank = 1},
       "schedule 'zb-v': takes 2 chunks per rank, and there are 1"},
      {{.name = "interleaved", .num_ranks = 2, .chunks_per_rank = 1},
       "schedule 'interleaved': takes 2 or more chunks per rank, and there are 1"},
      {{.name = "interleaved", .num_ranks = 2, .num_micro_batches = 4, .group = -1},
       "schedule 'interleaved': takes two chunks a rank or more and groups of a micro-batch or more, and there are 2 "
       "chunks a rank in groups of -1"},
      {{.name = "dualpipe-v", .num_ranks = 4, .num_micro_batches = 7},
       "schedule 'dualpipe-v': 4 ranks take 8 micro-batches or more, and there are 7"},
      {{.name = "1f1b", .num_ranks = 2, .rank_of_chunk = {1, 0}},
       "schedule '1f1b': deals out chunks itself; 'greedy' takes them by hand"},
      {{.name = "1f1b", .num_ranks = 0}, "a schedule takes ranks and micro-batches, and there are 0 and 1"},
      {{.name = "1f1b", .num_ranks = 1 << 20, .num_micro_batches = 1 << 20}, "of so many actions no schedule is made"},
      {{.name = "greedy", .num_ranks = 2, .costs = EqualCosts(1, {})},
       "schedule 'greedy': costs are of 1 chunks, and there are 2"},
  };
  for (const auto& [request, message] : kCases) {
    EXPECT_THAT(MakeSchedule(request), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  }
}

}  // namespace
}  // namespace oneflow
