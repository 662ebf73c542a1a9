// What users see when files fail a job that runs: data that is cut short, a disk that is full, files that may not grow.
// One line that names place and values; no process dies of it.
#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "test/e2e/hosts.h"
#include "test/e2e/oneflow_command.h"
#include "test/support/names.h"

namespace oneflow::e2e {
namespace {

void ExpectCause(const Outcome& ended, const std::string& regex) {
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.err, AllOf(ContainsRegex(regex), Not(HasSubstr("signal"))));
}

class FilesTest : public ::testing::Test {
 protected:
  std::unique_ptr<RunningCommand> StartEndless(const std::string& job) const {
    return work_.Start(
        Join({"run", job, "--set", "train.steps=100000000", "--metrics", work_.Path("m")}, OnMesh("dp: 2", 2)));
  }

  const Workspace work_;
};

TEST_F(FilesTest, ATextThatIsCutShortEndsTheJobWithTheReadAndThePlaceInTheFile) {
  const auto run = StartEndless(work_.GptJob());
  ASSERT_TRUE(AwaitLines(work_.Path("m"), 3)) << run->Errors();
  std::filesystem::resize_file(work_.Path("text"), 100);
  ExpectCause(run->Wait(),
              absl::StrCat("node 'read_data' \\(read_data, models/language_model.cc:[0-9]+\\) on rank [01] "
                           "\\(cpu:[01]\\): data file '",
                           work_.Path("text"),
                           "': 16 bytes at [0-9]+ cannot be read: it ends at [0-9]+, but had [0-9]+ bytes "
                           "when it was opened"));
}

TEST_F(FilesTest, ImagesThatAreCutShortEndTheJobWithTheReadAndThePlaceInTheFile) {
  const auto run = StartEndless(work_.ConvNetJob());
  ASSERT_TRUE(AwaitLines(work_.Path("m"), 3)) << run->Errors();
  std::filesystem::resize_file(work_.Path("images"), 1000);
  ExpectCause(run->Wait(), absl::StrCat("read_data.* on rank [01].*data file '", work_.Path("images"),
                                        "': 784 bytes at [0-9]+ cannot be read"));
}

// A directory that is a small disk of its own for the command.
std::vector<std::string> OnSmallDisk(const std::string& directory) {
  std::filesystem::create_directory(directory);
  return {"unshare", "--mount", "sh", "-c", R"(mount -t tmpfs -o size=16k tmpfs "$0" && exec "$@")", directory};
}

TEST_F(FilesTest, AFullDiskFailsWhatIsSavedThereWithWhatIsMissing) {
  if (const std::string why = Hosts::WhyNot(); !why.empty()) GTEST_SKIP() << why;
  const std::vector<std::string> disk = OnSmallDisk(work_.Path("disk"));
  for (const char* processes : {"1", "2"}) {
    const std::vector<std::string> job = {"run", work_.GptJob(), "--set", "mesh.dp=2", "--cluster", processes};
    ExpectCause(work_.Run(Join(job, {"--save-weights", work_.Path("disk/w")}), disk),
                absl::StrCat("saving weights: weight file '", work_.Path("disk/w"),
                             ".*': cannot reserve [0-9]+ bytes: No space left on device"));
    ExpectCause(work_.Run(Join(job, {"--trace", work_.Path("disk/t")}), disk),
                absl::StrCat("saving the trace: '", work_.Path("disk/t"), ".*: No space left on device"));
    ExpectCause(
        work_.Run(Join(job, {"--set", absl::StrCat("checkpoint={path: '", work_.Path("disk/c"), "' every: 5}")}), disk),
        absl::StrCat("the last checkpoint: .*'", work_.Path("disk/c"),
                     "/step-000000020.*': cannot write: No space left on device"));
  }
  EXPECT_THAT(work_.Leftovers(), IsEmpty());
}

TEST_F(FilesTest, AFileThatMayNotGrowIsAnErrorToo) {
  const std::vector<std::string> limited = {"sh", "-c", R"(ulimit -f 2000 && exec "$@")", "sh"};  // 512 bytes each
  ExpectCause(
      work_.Run({"run", work_.GptJob(), "--set", "model.gpt.width=256", "--save-weights", work_.Path("w")}, limited),
      "saving weights: weight file '.*': cannot reserve [0-9]+ bytes: File too large");
}

}  // namespace
}  // namespace oneflow::e2e
