#include "compiler/schedule/csv.h"

#include <random>

#include "compiler/schedule/check.h"
#include "compiler/schedule/generators.h"
#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"

namespace oneflow {
namespace {

TEST(ScheduleCsvTest, WritesARowPerRank) {
  ASSERT_OK_AND_ASSIGN(const Schedule schedule, ZeroBubbleH1(2, 2));
  EXPECT_EQ(ScheduleToCsv(schedule), "0F0,0F1,0I0,0W0,0I1,0W1\n1F0,1I0,1F1,1I1,1W0,1W1\n");
  ASSERT_OK_AND_ASSIGN(const Schedule pairs, DualPipeV(1, 2));
  EXPECT_EQ(ScheduleToCsv(pairs), "0F0,1F0,0F1,1B0,(1F1;0B0)OVERLAP_F_B,1B1,0I1,0W1\n");
}

TEST(ScheduleCsvTest, ReadingIsTheInverseOfWriting) {
  std::vector<absl::StatusOr<Schedule>> schedules;
  for (const int p : {1, 2, 3, 8}) {
    for (const int m : {1, 2, 7, 16}) {
      schedules.insert(schedules.end(), {GPipe(p, m), OneFOneB(p, m), Interleaved1F1B(p, 2, m),
                                         Interleaved1F1B(p, 3, m), ZeroBubbleH1(p, m), ZeroBubbleV(p, m),
                                         ForwardOnly(p, RoundRobin(p, 2), m), ForwardOnly(p + 1, VShape(p), m)});
      if (m >= 2 * p) schedules.push_back(DualPipeV(p, m));
    }
  }
  for (const absl::StatusOr<Schedule>& schedule : schedules) {
    ASSERT_OK(schedule);
    ASSERT_OK_AND_ASSIGN(const Schedule again, ScheduleFromCsv(ScheduleToCsv(*schedule), "x.csv"));
    EXPECT_EQ(again, *schedule) << ScheduleToCsv(*schedule);
  }
}

// As PyTorch's writer and its lowering to transfers leave it.
TEST(ScheduleCsvTest, LeavesOutBubblesTransfersAndSharding) {
  ASSERT_OK_AND_ASSIGN(const Schedule schedule,
                       ScheduleFromCsv("0UNSHARD,0F0,0SEND_F0,,\"\", 0RECV_B0 ,0B0,0REDUCE_GRAD,0RESHARD\r\n"
                                       ",1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD0\r\n"
                                       "\"\"",
                                       "x.csv"));
  EXPECT_EQ(ScheduleToCsv(schedule), "0F0,0B0\n1F0,1B0\n\n");
  EXPECT_THAT(schedule.rank_of_chunk, ElementsAre(0, 1));
  EXPECT_EQ(schedule.num_micro_batches, 1);
  EXPECT_OK(CheckSchedule(schedule));
}

TEST(ScheduleCsvTest, AFileMayBeginWithTheMarkOfUtf8) {
  const TestDir dir;
  ASSERT_OK_AND_ASSIGN(const Schedule schedule, ReadSchedule(dir.Write("x.csv",
                                                                       "\xef\xbb\xbf"
                                                                       "0F0,0B0\n")));
  EXPECT_EQ(ScheduleToCsv(schedule), "0F0,0B0\n");
}

TEST(ScheduleCsvTest, ReadsPairs) {
  ASSERT_OK_AND_ASSIGN(const Schedule schedule, ScheduleFromCsv("1F0, ( 0F1 ; 1B0 )OVERLAP_F_B,0F0", "x.csv"));
  EXPECT_THAT(schedule.ranks[0],
              ElementsAre(Action{1, 0, ActionKind::kForward}, Action{0, 1, ActionKind::kForward, true},
                          Action{1, 0, ActionKind::kBackward}, Action{0, 0, ActionKind::kForward}));
}

TEST(ScheduleCsvTest, NamesFileRowColumnAndTextOfAnError) {
  const BadText kCases[] = {
      {"0F0,0B0\n1F0,1X0\n",
       "x.csv: row 2, column 2: '1X0' is no action, such as 2F0: chunk, one of F I W B, micro-batch"},
      {"0F0,,0F", "x.csv: row 1, column 3: '0F' is no action"},
      {"F0", "row 1, column 1: 'F0' is no action"},
      {"-1F0", "row 1, column 1: '-1F0' is no action"},
      {"0F0 0F1", "row 1, column 1: '0F0 0F1' is no action"},
      {"12", "row 1, column 1: '12' is no action"},
      {"0F99999999999999999999", "row 1, column 1: '0F99999999999999999999' is no action"},
      {"SEND_F1", "row 1, column 1: 'SEND_F1' is no action"},
      {"(0F0;1B0)", "row 1, column 1: '(0F0;1B0)' is no pair, such as (0F3;7B1)OVERLAP_F_B"},
      {"(0F0;1B0;2F0)OVERLAP_F_B", "is no pair"},
      {"(0F0;1SEND_F0)OVERLAP_F_B", "is no pair"},
      {"(", "row 1, column 1: '(' is no pair"},
      {"0F0\n0F1\n", "x.csv: row 2, column 1: '0F1' is on rank 1, and chunk 0 lies on rank 0"},
      {"0F0,0F99", "row 1, column 2: '0F99' has a number that is larger than the whole text"},
      {"2F0,1F0", "x.csv: there is a chunk 2, and no action of chunk 0"},
      {"0F0,0F2", "x.csv: there is a micro-batch 2, and no action of micro-batch 1"},
      {"", "x.csv: there are no actions"},
      {",,\n\n", "x.csv: there are no actions"},
      {"\xff\n", "row 1, column 1: '\\xff' is no action"},
  };
  for (const auto& [csv, message] : kCases) {
    SCOPED_TRACE(csv);
    EXPECT_THAT(ScheduleFromCsv(csv, "x.csv"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  }
  EXPECT_THAT(
      ScheduleFromCsv(std::string(5000, 'x'), "x.csv"),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("column 1: '" + std::string(40, 'x') + "..' is no")));
}

// Texts of a good file with bytes changed, left out and put in, and bytes at random.
TEST(ScheduleCsvTest, NoBytesCrashIt) {
  ASSERT_OK_AND_ASSIGN(const Schedule schedule, DualPipeV(2, 5));
  const std::string good = ScheduleToCsv(schedule) + "0SEND_F1,3UNSHARD\n";
  constexpr absl::string_view kLikely = "0123456789FIWB,;()\n\r\"OVERLAP_F_B ";
  int read = 0;
  for (uint32_t seed = 0; seed < 20000; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    std::string text = random() % 2 == 0 ? good : good.substr(0, random() % good.size());
    if (random() % 8 == 0) text = std::string(random() % 40, ' ');
    for (int changes = random() % 5; changes > 0 && !text.empty(); --changes) {
      const size_t at = random() % text.size();
      const char c = random() % 4 == 0 ? static_cast<char>(random()) : kLikely[random() % kLikely.size()];
      switch (random() % 3) {
        case 0:
          text[at] = c;
          break;
        case 1:
          text.erase(at, 1 + random() % 3);
          break;
        default:
          text.insert(at, 1, c);
      }
    }
    const absl::StatusOr<Schedule> result = ScheduleFromCsv(text, "x.csv");
    if (!result.ok()) {
      ASSERT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
      ASSERT_THAT(std::string(result.status().message()), HasSubstr("x.csv: "));
      continue;
    }
    ++read;
    CheckSchedule(*result).IgnoreError();
    ASSERT_OK_AND_ASSIGN(const Schedule again, ScheduleFromCsv(ScheduleToCsv(*result), "x.csv"));
    ASSERT_EQ(again, *result);
  }
  EXPECT_GT(read, 1000);
}

TEST(ScheduleCsvTest, ReadsFiles) {
  const TestDir dir;
  ASSERT_OK_AND_ASSIGN(const Schedule schedule, ReadSchedule(dir.Write("two.csv", "0F0,0B0\n1F0,1B0\n")));
  EXPECT_EQ(schedule.num_ranks(), 2);
  EXPECT_THAT(ReadSchedule(dir.Write("bad.csv", "0F0,0X0\n")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("/bad.csv: row 1, column 2: '0X0' is no action")));
  EXPECT_THAT(ReadSchedule(dir.File("none.csv")),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/none.csv': No such file")));
  EXPECT_THAT(ReadSchedule(dir.File("")), StatusIs(absl::StatusCode::kNotFound, HasSubstr("Is a directory")));
  EXPECT_THAT(ReadSchedule(dir.Write("empty.csv", "")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("empty.csv: there are no actions")));
}

}  // namespace
}  // namespace oneflow
