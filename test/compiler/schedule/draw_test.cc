#include "compiler/schedule/draw.h"

#include <algorithm>

#include "absl/strings/str_split.h"
#include "compiler/schedule/csv.h"
#include "compiler/schedule/generators.h"
#include "gmock/gmock.h"
#include "test/support/golden.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

Timeline PlayEqual(const Schedule& schedule) { return Play(schedule, EqualCosts(schedule.num_chunks(), {})); }

TEST(DrawTextTest, HasARowPerRankAndDotsWhereItIsIdle) {
  ASSERT_OK_AND_ASSIGN(const Schedule schedule, OneFOneB(2, 2));
  EXPECT_EQ(DrawText(schedule, PlayEqual(schedule)),
            "rank 0 |F0>F1>......B0<<<<...B1<<<<|\n"
            "rank 1 |...F0>B0<<<<F1>B1<<<<......|\n"
            "        F> forward  B< backward  I< input gradient  W= weight gradient  . idle; 9 in all\n");
}

TEST(DrawTextTest, NamesChunksWhereARankHasSeveral) {
  ASSERT_OK_AND_ASSIGN(const Schedule schedule,
                       ScheduleFromCsv("0F0,1F0,(0F1;1B0)OVERLAP_F_B,1F1,1I1,1W1,0B0,0B1", "x"));
  EXPECT_THAT(DrawText(schedule, PlayEqual(schedule)),
              StartsWith("rank 0 |0F0>1F0>0F1>>>1B0<<<1F1>1I1<1W1=0B0<<<<<0B1<<<<<|\n"));
}

// Names give way to kinds before the picture grows wider than it may.
TEST(DrawTextTest, KeepsTheWidth) {
  ASSERT_OK_AND_ASSIGN(const Schedule schedule, Interleaved1F1B(4, 2, 12, 4));
  for (const int width : {0, 200, 80, 30, 1}) {
    const std::string text = DrawText(schedule, PlayEqual(schedule), width);
    const std::vector<std::string> lines = absl::StrSplit(text, '\n');
    ASSERT_EQ(lines.size(), 6u);
    for (int r = 0; r < 4; ++r) {
      EXPECT_EQ(lines[r].size(), lines[0].size());
      EXPECT_TRUE(width < 30 || static_cast<int>(lines[r].size()) <= width) << lines[r];
    }
  }
  EXPECT_THAT(DrawText(schedule, PlayEqual(schedule), 30), HasSubstr("rank 0 |F"));
}

TEST(DrawTextTest, NothingToDraw) {
  EXPECT_THAT(DrawText({}, {}), HasSubstr("0 in all"));
  EXPECT_THAT(DrawSvg({}, {}), HasSubstr("</svg>"));
  ASSERT_OK_AND_ASSIGN(const Schedule schedule, OneFOneB(1, 1));
  const Timeline free = Play(schedule, EqualCosts(1, {0, 0, 0}));
  EXPECT_THAT(DrawText(schedule, free), StartsWith("rank 0 |..........|\n"));
  EXPECT_THAT(DrawSvg(schedule, free), HasSubstr("</svg>"));
}

TEST(DrawSvgTest, Picture) {
  ASSERT_OK_AND_ASSIGN(const Schedule schedule, DualPipeV(2, 4));
  EXPECT_GOLDEN("compiler/dualpipe_v.svg", DrawSvg(schedule, PlayEqual(schedule)));
}

TEST(DrawSvgTest, HasABoxForEveryAction) {
  ASSERT_OK_AND_ASSIGN(const Schedule schedule, ZeroBubbleV(4, 8));
  const std::string svg = DrawSvg(schedule, PlayEqual(schedule));
  const std::vector<std::string> boxes = absl::StrSplit(svg, "<title>");
  EXPECT_EQ(boxes.size(), 1u + 8 * 8 * 3);
  EXPECT_THAT(svg, HasSubstr("<title>0F0: 0 to 1</title>"));
  EXPECT_THAT(svg, HasSubstr(">weight gradient</text>"));
  EXPECT_THAT(svg, Not(HasSubstr(">backward</text>")));  // of which there is none
}

}  // namespace
}  // namespace oneflow
