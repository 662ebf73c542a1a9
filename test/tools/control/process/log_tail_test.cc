#include "tools/control/process/log_tail.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "tools/control/process/temp_dir.h"

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

// As a worker's log grows: its writer appends, wherever the file ends.
TEST(LogTailTest, ALongLogLosesItsMiddleAndSaysSo) {
  ASSERT_OK_AND_ASSIGN(const auto dir, TempDir::Make("log-test"));
  const std::string path = dir->path() + "/log";
  std::ofstream log(path, std::ios::app);
  for (int line = 0; line < 100'000; ++line) {
    log << "line " << line << std::endl;
    if (line % 1000 == 0) {
      EXPECT_OK(ShortenLog(path, 20'000));
    }
  }
  EXPECT_OK(ShortenLog(path, 20'000));
  EXPECT_LE(std::filesystem::file_size(path), 20'000u);
  std::ifstream written(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(written, line);) lines.push_back(line);
  EXPECT_EQ(lines.front(), "line 0");
  EXPECT_EQ(lines.back(), "line 99999");
  int gaps = 0, last = -1;
  for (const std::string& line : lines) {
    int number = 0;
    if (absl::StrContains(line, "bytes were cut out here: a log may have 20000")) {
      ++gaps;
    } else {
      ASSERT_EQ(std::sscanf(line.c_str(), "line %d", &number), 1) << line << ": lines are whole";
      ASSERT_GT(number, last);
      last = number;
    }
  }
  EXPECT_EQ(gaps, 1);
  EXPECT_OK(ShortenLog(path + "x", 1));
}

TEST(LogTailTest, LastLinesAreThoseAtTheEnd) {
  EXPECT_EQ(LastLines("a\nb\nc\n", 2), "b\nc\n");
  EXPECT_EQ(LastLines("a\nb\nc", 2), "b\nc");
  EXPECT_EQ(LastLines("a\nb\n", 9), "a\nb\n");
  EXPECT_EQ(LastLines("", 3), "");
}

}  // namespace
}  // namespace oneflow
