// Files that a job writes, and what lies where they shall go: nothing of others is replaced, and nothing is lost.
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <zlib.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "test/e2e/oneflow_command.h"
#include "test/support/names.h"

namespace oneflow::e2e {
namespace {

namespace fs = std::filesystem;

class OutputsTest : public ::testing::Test {
 protected:
  std::vector<std::string> Train(int steps, const std::vector<std::string>& more = {}) const {
    return Join({"run", work_.GptJob(), "--set", absl::StrCat("train.steps=", steps), "--set",
                 absl::StrCat("checkpoint={path: '", work_.Path("checkpoints"), "'}")},
                more);
  }
  std::vector<int> Steps(const std::string& name) const {
    std::vector<int> steps;
    for (const nlohmann::json& line : LinesIn(work_.Path(name))) steps.push_back(line.at("step"));
    return steps;
  }

  const Workspace work_;
};

TEST_F(OutputsTest, WhatIsNoFileIsRefusedBeforeTrainingAndStays) {
  ASSERT_EQ(mkfifo(work_.Path("pipe").c_str(), 0600), 0);
  std::vector<std::string> names = {"pipe"};
  // One of its own that behaves as the null device does.
  if (mknod(work_.Path("device").c_str(), S_IFCHR | 0666, makedev(1, 3)) == 0) names.push_back("device");
  for (const std::string& name : names) {
    struct stat before = {}, after = {};
    stat(work_.Path(name).c_str(), &before);
    for (const char* const option : {"--save-weights", "--save-gradients", "--save-initial-weights", "--trace"}) {
      const Outcome run = work_.Run({"run", work_.GptJob(), option, work_.Path(name)});
      EXPECT_EQ(run.exit_code, 1) << option;
      EXPECT_THAT(run.err, HasSubstr(absl::StrCat("cannot write '", work_.Path(name), "': it is a "))) << option;
      EXPECT_THAT(run.out, IsEmpty());
    }
    stat(work_.Path(name).c_str(), &after);
    EXPECT_EQ(before.st_mode, after.st_mode) << name;
  }
}

TEST_F(OutputsTest, LinksAreFollowed) {
  fs::create_directory(work_.Path("disk"));
  for (const char* const name : {"w", "g", "i", "t.json.gz"}) {
    work_.Write(absl::StrCat("disk/", name), "old");
    fs::create_symlink(absl::StrCat("disk/", name), work_.Path(name));
  }
  const Outcome run =
      work_.Run(Join({"run", work_.GptJob(), "--save-weights", work_.Path("w"), "--save-gradients", work_.Path("g"),
                      "--save-initial-weights", work_.Path("i"), "--trace", work_.Path("t.json.gz")},
                     OnMesh("dp: 2", 2)));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  for (const char* const name : {"w", "g", "i", "t.json.gz"}) {
    EXPECT_TRUE(fs::is_symlink(work_.Path(name))) << name;
    EXPECT_GT(fs::file_size(work_.Path(absl::StrCat("disk/", name))), 500u) << name;
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(work_.Path("disk")), fs::directory_iterator()), 4);
}

TEST_F(OutputsTest, WhatIsWrittenTwiceOrReadIsRefused) {
  const std::string job = work_.GptJob();
  fs::create_symlink("w", work_.Path("link"));
  const struct {
    std::vector<std::string> arguments;
    std::string error;
  } cases[] = {
      {{"--save-weights", work_.Path("w"), "--trace", work_.Path("./w")}, "one would replace the other"},
      {{"--save-weights", work_.Path("w"), "--save-gradients", work_.Path("link")}, "one would replace the other"},
      {{"--save-weights", work_.Path("w"), "--metrics", work_.Path("w")}, "one would replace the other"},
      {{"--save-weights", work_.Path("text")}, "and data.text.path '"},
      {{"--metrics", job}, "and the job config '"},
      {{"--metrics", work_.Path("text")}, "what is read would be replaced"}};
  for (const auto& c : cases) {
    const Outcome run = work_.Run(Join({"run", job}, c.arguments));
    EXPECT_EQ(run.exit_code, 1);
    EXPECT_THAT(run.err, HasSubstr(c.error));
    EXPECT_THAT(run.out, IsEmpty());
  }
  EXPECT_FALSE(fs::exists(work_.Path("w")));
  const Outcome explained = work_.Run({"plan", "explain", job, "--html", job});
  EXPECT_EQ(explained.exit_code, 1);
  EXPECT_THAT(explained.err, HasSubstr("what is read would be replaced"));
}

TEST_F(OutputsTest, MetricsGoOnWithTheRun) {
  const std::vector<std::string> metrics = {"--metrics", work_.Path("m")};
  EXPECT_EQ(work_.Run(Train(3, metrics)).exit_code, 0);
  EXPECT_THAT(Steps("m"), ElementsAre(1, 2, 3));
  EXPECT_EQ(work_.Run(Train(5, Join(metrics, {"--resume"}))).exit_code, 0);
  EXPECT_THAT(Steps("m"), ElementsAre(1, 2, 3, 4, 5));
  // From an earlier one: its steps are void.
  const Outcome back =
      work_.Run(Train(4, Join(metrics, {"--set", absl::StrCat("checkpoint.path=", work_.Path("others")),
                                        "--resume=" + work_.Path("checkpoints/step-000000003")})));
  EXPECT_EQ(back.exit_code, 0) << back.err;
  EXPECT_THAT(back.err, HasSubstr("goes on before step 4; 2 lines from there on are cut off"));
  EXPECT_THAT(Steps("m"), ElementsAre(1, 2, 3, 4));
}

TEST_F(OutputsTest, MetricsOfAFormerRunAreNotLost) {
  const std::vector<std::string> metrics = {"--metrics", work_.Path("m")};
  EXPECT_EQ(work_.Run(Train(3, metrics)).exit_code, 0);
  const Outcome refused = work_.Run(Train(5, metrics));
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("go on from it with --resume"));
  EXPECT_THAT(Steps("m"), SizeIs(3)) << "a job that is refused opens nothing";
  const Outcome nothing = work_.Run(Train(3, Join(metrics, {"--resume"})));
  EXPECT_EQ(nothing.exit_code, 0) << nothing.err;
  EXPECT_THAT(Steps("m"), SizeIs(3));
  const Outcome again = work_.Run(Join({"run", work_.GptJob(), "--set", "train.steps=2"}, metrics));
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_THAT(again.err, HasSubstr(absl::StrCat("what a former run wrote there is in ", work_.Path("m.1"))));
  EXPECT_THAT(Steps("m"), SizeIs(2));
  EXPECT_THAT(Steps("m.1"), SizeIs(3));
}

// As `cat a.gz b.gz`, which is a gzip file too.
TEST_F(OutputsTest, CompressedTextIsTrainedOnToItsEnd) {
  const std::string text = ReadFile(work_.Path("text"));
  for (const size_t begin : {size_t{0}, text.size() / 3}) {
    const gzFile part = gzopen(work_.Path("text.gz").c_str(), "ab");
    const std::string piece = begin == 0 ? text.substr(0, text.size() / 3) : text.substr(begin);
    ASSERT_EQ(gzwrite(part, piece.data(), piece.size()), static_cast<int>(piece.size()));
    gzclose(part);
  }
  const std::vector<std::string> evaluate = {"--set", "evaluate={every: 10}"};
  const std::vector<double> plain = work_.Losses(work_.GptJob(), evaluate);
  EXPECT_EQ(work_.Losses(work_.GptJob(), Join(evaluate, {"--set", "data.text.path=" + work_.Path("text.gz")})), plain);
}

}  // namespace
}  // namespace oneflow::e2e
