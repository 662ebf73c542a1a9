#include "tools/daemon/log_tail.h"

#include <fstream>

#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "tools/process/temp_dir.h"

namespace oneflow {
namespace {

TEST(LogTailTest, ReadsTheEndFromTheStartOfALine) {
  ASSERT_OK_AND_ASSIGN(const auto dir, TempDir::Make("log-test"));
  const std::string path = dir->path() + "/log";
  std::ofstream(path) << "first\nsecond\nthird\n";
  EXPECT_EQ(ReadTail(path, 1000), "first\nsecond\nthird\n");
  EXPECT_EQ(ReadTail(path, 10), "third\n");
  EXPECT_EQ(ReadTail(path, 3), "");
  EXPECT_EQ(ReadTail(path + "x", 10), "");
}

TEST(LogTailTest, PartsFollowOneAnotherWhileTheFileGrows) {
  ASSERT_OK_AND_ASSIGN(const auto dir, TempDir::Make("log-test"));
  const std::string path = dir->path() + "/log";
  std::ofstream(path) << "first\nsec";
  LogPart part = ReadPart(path, 0, 7);
  EXPECT_EQ(part.text, "first\ns");
  part = ReadPart(path, part.next_offset, 7);
  EXPECT_EQ(part.text, "ec");
  std::ofstream(path, std::ios::app) << "ond\n";
  EXPECT_EQ(ReadPart(path, part.next_offset, 7).text, "ond\n");
  EXPECT_EQ(ReadPart(path, 1000, 7).text, "");
  EXPECT_EQ(ReadPart(path, 1000, 7).next_offset, 13) << "it goes on from its end";
  EXPECT_EQ(ReadPart(path, std::nullopt, 1000).next_offset, 13);
}

TEST(LogTailTest, LastLinesAreThoseAtTheEnd) {
  EXPECT_EQ(LastLines("a\nb\nc\n", 2), "b\nc\n");
  EXPECT_EQ(LastLines("a\nb\nc", 2), "b\nc");
  EXPECT_EQ(LastLines("a\nb\n", 9), "a\nb\n");
  EXPECT_EQ(LastLines("", 3), "");
}

}  // namespace
}  // namespace oneflow
