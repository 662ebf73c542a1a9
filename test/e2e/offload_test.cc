// What lies on disk while a job runs: found spoiled it ends the attempt, and nothing is lost; and it takes the memory
// that it should.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <optional>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "test/e2e/oneflow_command.h"
#include "test/e2e/processes.h"

namespace oneflow::e2e {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kDiskBlock = 4096;
constexpr char kAllOnDisk[] =
    "[{what: OPTIMIZER tier: DISK least_kb: 0 unit_mb: 0.02}, {what: WEIGHTS tier: DISK least_kb: 0 unit_mb: 0.02}]";

// The file without a name that a process has open in `folder`, as a path.
std::optional<std::string> FileOnDisk(const Process& process, const std::string& folder) {
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator(absl::StrCat("/proc/", process.pid, "/fd"), gone)) {
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (absl::StartsWith(target, absl::StrCat(folder, "/")) && absl::EndsWith(target, "(deleted)")) {
      return entry.path().string();
    }
  }
  return std::nullopt;
}

// Turns a bit of every block over, as a disk that fails. Past the page cache, as the job does: of pages that both
// write the kernel would report an error, to either.
void SpoilBlocks(const std::string& path) {
  const int file = open(path.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC);
  ASSERT_GE(file, 0) << path;
  struct stat info = {};
  ASSERT_EQ(fstat(file, &info), 0);
  alignas(kDiskBlock) static char block[kDiskBlock];
  for (int64_t offset = 0; offset < info.st_size; offset += kDiskBlock) {
    ASSERT_EQ(pread(file, block, kDiskBlock, offset), kDiskBlock);
    block[0] = static_cast<char>(block[0] ^ 1);
    ASSERT_EQ(pwrite(file, block, kDiskBlock, offset), kDiskBlock);
  }
  close(file);
}

// By step; of one that was taken again, the last.
std::map<int, double> LossOfSteps(const std::string& metrics) {
  std::map<int, double> losses;
  for (const nlohmann::json& line : LinesIn(metrics)) {
    if (line.contains("loss")) losses[line.at("step")] = line.at("loss");
  }
  return losses;
}

TEST(OffloadTest, WhatADiskSpoilsIsFoundAndNothingIsLost) {
  const Workspace work;
  const std::string folder = work.Path("disk");
  // So many steps that the job still runs when its file is spoiled, however busy the machine is.
  const std::vector<std::string> job =
      Join({"run", work.GptJob()}, Join(OnMesh("dp: 2", 2), Set("train.steps", "1000")));
  const Outcome plain = work.Run(Join(job, {"--metrics", work.Path("plain")}));
  ASSERT_EQ(plain.exit_code, 0) << plain.err;
  const auto run =
      work.Start(Join(Join(job, {"--metrics", work.Path("metrics"), "--set", absl::StrCat("offload=", kAllOnDisk)}),
                      Join(Set("offload_folder", folder),
                           Join(Set("restart.attempts", "2"),
                                Set("checkpoint", absl::StrCat("{path: '", work.Path("saved"), "' every: 5}"))))));
  ASSERT_TRUE(AwaitLines(work.Path("metrics"), 20)) << run->Errors();
  int spoiled = 0;
  for (Process& process : DescendantsOf(run->pid())) {
    if (absl::StrContains(process.command, " worker --") && spoiled == 0) {
      if (const std::optional<std::string> file = FileOnDisk(process, folder); file.has_value()) {
        SpoilBlocks(*file);
        ++spoiled;
      }
    }
    process.Close();
  }
  EXPECT_EQ(spoiled, 1);
  const Outcome ended = run->Wait(absl::Minutes(2));
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(ended.out + ended.err, HasSubstr(absl::StrCat("disk tier in '", folder, "'")));
  EXPECT_THAT(ended.out + ended.err, HasSubstr("has digest"));
  EXPECT_EQ(LossOfSteps(work.Path("metrics")), LossOfSteps(work.Path("plain"))) << "those of an undisturbed run";
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  EXPECT_THAT(work.Leftovers(), ::testing::IsEmpty());
}

TEST(OffloadTest, AFolderThatCannotBeIsNamed) {
  const Workspace work;
  work.Write("file", "");
  const std::string folder = work.Path("file") + "/disk";
  const Outcome ended = work.Run({"run", work.GptJob(), "--set", absl::StrCat("offload=", kAllOnDisk), "--set",
                                  absl::StrCat("offload_folder=", folder)});
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.err, HasSubstr(folder));
}

// Weights, gradients and both moments of 9.6 million parameters take 153 MB, and the device has 15.
TEST(OffloadTest, AModelOfTenTimesTheMemoryOfItsDeviceTrains) {
  const Workspace work;
  const std::vector<std::string> wide = Join(
      {"run", work.GptJob()},
      Join(Set("model.gpt", "{vocabulary: 256 layers: 12 width: 256 heads: 4 context: 32}"),
           Join(Set("train.batch_size", "4"), Join(Set("train.optimizer.clip_norm", "0"),
                                                   Join(Set("train.steps", "3"), Set("recompute.what", "layers"))))));
  const std::vector<std::string> small = Set("cluster.hosts", "[{device_memory_bytes: 15000000}]");
  const Outcome refused = work.Run(Join(wide, small));
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("bytes of memory, it has 15000000"));
  const std::vector<std::string> offload = Set("offload",
                                               "[{what: OPTIMIZER tier: DISK least_kb: 0 unit_mb: 0.1 prefetch: 0}, "
                                               "{what: WEIGHTS tier: DISK least_kb: 0 unit_mb: 0.1 prefetch: 0}]");
  const std::vector<double> losses =
      work.Losses(work.GptJob(), Join({wide.begin() + 2, wide.end()}, Join(small, offload)));
  EXPECT_EQ(losses, work.Losses(work.GptJob(), {wide.begin() + 2, wide.end()})) << "those in memory, to the bit";
}

}  // namespace
}  // namespace oneflow::e2e
