#include "tools/cli/metrics_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"

namespace oneflow {
namespace {

std::string Line(int64_t step) { return absl::StrCat("{\"step\": ", step, ", \"loss\": 0.5}"); }
std::string Lines(int64_t first, int64_t last) {
  std::string lines;
  for (int64_t step = first; step <= last; ++step) lines += Line(step) + "\n";
  return lines;
}

class MetricsFileTest : public ::testing::Test {
 protected:
  std::string Read(const std::string& name = "m") const {
    std::ostringstream text;
    text << std::ifstream(dir_.File(name)).rdbuf();
    return text.str();
  }
  // A run that trains these steps; what it said.
  std::vector<std::string> Run(bool goes_on, int64_t first, int64_t last, const std::string& name = "m") {
    std::vector<std::string> said;
    MetricsFile file(dir_.File(name), goes_on, [&said](const std::string& text) { said.push_back(text); });
    for (int64_t step = first; step <= last; ++step) file.Add(Line(step));
    EXPECT_OK(file.Finish(/*finished=*/true));
    return said;
  }

  const TestDir dir_;
};

TEST_F(MetricsFileTest, ARunThatGoesOnAddsToWhatItGoesOnFrom) {
  EXPECT_THAT(Run(false, 1, 5), IsEmpty());
  EXPECT_THAT(Run(true, 6, 8), IsEmpty());
  EXPECT_EQ(Read(), Lines(1, 8));
  EXPECT_THAT(Run(true, 4, 6), ElementsAre(HasSubstr("goes on before step 4; 5 lines from there on are cut off")));
  EXPECT_EQ(Read(), Lines(1, 6));
  EXPECT_THAT(Run(true, 9, 9), IsEmpty()) << "another file had the steps between";
  EXPECT_EQ(Read(), Lines(1, 6) + Lines(9, 9));
}

TEST_F(MetricsFileTest, WhatAFormerRunWroteIsKept) {
  Run(false, 1, 3);
  EXPECT_THAT(Run(false, 1, 2), ElementsAre(HasSubstr(absl::StrCat("is in ", dir_.File("m.1")))));
  EXPECT_THAT(Run(true, 1, 1), ElementsAre(HasSubstr(dir_.File("m.2")))) << "it goes on, but from the beginning";
  EXPECT_EQ(Read(), Lines(1, 1));
  EXPECT_EQ(Read("m.1"), Lines(1, 3));
  EXPECT_EQ(Read("m.2"), Lines(1, 2));
}

TEST_F(MetricsFileTest, ARunWithoutStepsLeavesAFileAsItIs) {
  dir_.Write("m", Lines(1, 3));
  for (const bool goes_on : {false, true}) EXPECT_THAT(Run(goes_on, 1, 0), IsEmpty());
  EXPECT_EQ(Read(), Lines(1, 3));
  Run(false, 1, 0, "other");
  EXPECT_TRUE(std::filesystem::exists(dir_.File("other"))) << "a finished run has its file";
  MetricsFile refused(dir_.File("third"), false, [](const std::string&) {});
  EXPECT_OK(refused.Finish(/*finished=*/false));
  EXPECT_FALSE(std::filesystem::exists(dir_.File("third")));
}

TEST_F(MetricsFileTest, ALineThatAKilledRunLeftHalfWrittenIsCutOff) {
  const std::string half = Line(4).substr(0, 11);
  dir_.Write("m", Lines(1, 3) + half);
  EXPECT_THAT(Run(true, 4, 5), ElementsAre(HasSubstr("goes on before step 4")));
  EXPECT_EQ(Read(), Lines(1, 5));
}

TEST_F(MetricsFileTest, KeepsTheBytesBeforeAStep) {
  const std::string three = Lines(1, 3);
  EXPECT_EQ(BytesBefore(4, three), three.size());
  EXPECT_EQ(BytesBefore(3, three), Lines(1, 2).size());
  EXPECT_EQ(BytesBefore(1, three), 0u);
  EXPECT_EQ(BytesBefore(4, ""), 0u);
  for (const char* const other : {"text\n", "{}\n", "{\"step\": \"x\"}\n", "[1]\n", "\n", "{\"step\": 0}\n"}) {
    EXPECT_EQ(BytesBefore(9, other + three), 0u) << other;
    EXPECT_EQ(BytesBefore(9, three + other), three.size()) << other;
  }
}

TEST_F(MetricsFileTest, TwoRunsDoNotWriteOneFile) {
  MetricsFile first(dir_.File("m"), false, [](const std::string&) {});
  EXPECT_OK(MetricsFile::Check(dir_.File("m")));
  first.Add(Line(1));
  const auto refused = StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another run writes it now"));
  EXPECT_THAT(MetricsFile::Check(dir_.File("m")), refused);
  MetricsFile second(dir_.File("m"), false, [](const std::string&) {});
  second.Add(Line(1));
  EXPECT_THAT(second.Finish(true), refused);
  first.Add(Line(2));
  EXPECT_OK(first.Finish(true));
  EXPECT_EQ(Read(), Lines(1, 2));
  EXPECT_OK(MetricsFile::Check(dir_.File("m")));
}

TEST_F(MetricsFileTest, LinksAreFollowedAndPipesAreWrittenTo) {
  std::filesystem::create_directory(dir_.File("disk"));
  std::filesystem::create_symlink("disk/m", dir_.File("m"));
  Run(false, 1, 2);
  Run(false, 1, 1);
  EXPECT_TRUE(std::filesystem::is_symlink(dir_.File("m")));
  EXPECT_EQ(Read("disk/m"), Lines(1, 1));
  EXPECT_EQ(Read("disk/m.1"), Lines(1, 2));
  ASSERT_EQ(mkfifo(dir_.File("pipe").c_str(), 0600), 0);
  const int reader = open(dir_.File("pipe").c_str(), O_RDONLY | O_NONBLOCK);
  EXPECT_OK(MetricsFile::Check(dir_.File("pipe")));
  Run(true, 5, 6, "pipe");
  char got[256] = {};
  EXPECT_GT(read(reader, got, sizeof(got)), 0);
  EXPECT_EQ(std::string(got), Lines(5, 6));
  close(reader);
}

TEST_F(MetricsFileTest, WhatNoFileCanBeIsSaidAtOnce) {
  EXPECT_THAT(MetricsFile::Check(dir_.File(".")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--metrics: cannot write '")));
  EXPECT_THAT(MetricsFile::Check(dir_.File("none/m")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("there is no folder")));
  EXPECT_FALSE(std::filesystem::exists(dir_.File("m")));
}

}  // namespace
}  // namespace oneflow
