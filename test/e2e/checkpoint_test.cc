// A job that is killed goes on from its last checkpoint as if nothing had happened, on whatever devices there are.
#include <signal.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "test/e2e/losses.h"
#include "test/e2e/metrics_pipe.h"
#include "test/e2e/oneflow_command.h"
#include "test/e2e/processes.h"
#include "test/support/names.h"

namespace oneflow::e2e {
namespace {

std::vector<std::string> Saving(const std::string& folder, int every) {
  return {"--set", absl::StrCat("checkpoint={path: '", folder, "' every: ", every, "}")};
}

std::vector<std::string> Steps(int64_t steps) { return {"--set", absl::StrCat("train.steps=", steps)}; }

// What `oneflow checkpoint diff` says of the last ones: nothing, if they are the same to the bit.
std::string Difference(const Workspace& work, const std::string& a, const std::string& b) {
  const Outcome diff = work.Run({"checkpoint", "diff", work.Path(a), work.Path(b)});
  return diff.out + diff.err;
}

void KillWorkers(int command) {
  for (Process& process : DescendantsOf(command)) {
    if (absl::StrContains(process.command, "worker")) process.Kill(SIGKILL);
    process.Close();
  }
}

// A job that ends before its time: its workers die, or a read fails while other ranks are in the middle of a step.
struct Ending {
  const char* name;
  bool is_gpt;
  bool killed;
  const char* zero = "";  // what devices have in parts
};

class KilledTest : public ::testing::TestWithParam<Ending> {};

// To the bit: weights, the optimizer's moments, running statistics, dropout and the order of data.
TEST_P(KilledTest, GoesOnAsIfItHadNotBeen) {
  const Workspace work;
  const std::string job = GetParam().is_gpt ? work.GptJob() : work.ConvNetJob();
  const std::vector<std::string> layout = OnMesh("dp: 2 tp: 2", 2);
  const std::vector<std::string> dropout =
      GetParam().is_gpt ? std::vector<std::string>{"--set", "model.gpt.dropout=0.2"} : std::vector<std::string>{};
  const std::vector<std::string> zero = *GetParam().zero == '\0'
                                            ? std::vector<std::string>{}
                                            : std::vector<std::string>{"--set", absl::StrCat("zero=", GetParam().zero)};
  const std::vector<std::string> common = Join(Join(layout, dropout), zero);
  // Long enough that the kill comes before the end; its rate is that of the short one, which follows the schedule.
  const std::vector<std::string> constant = {"--set", "train.schedule={learning_rate: 0.003}"};
  MetricsPipe metrics(work.Path("metrics"));
  const auto run = work.Start(
      Join(Join(Join({"run", job, "--metrics", work.Path("metrics")}, common), Join(Steps(100'000'000), constant)),
           Saving(work.Path("killed"), 7)));
  ASSERT_TRUE(metrics.AwaitSteps(20)) << run->Errors();
  const std::string text = ReadFile(work.Path("text"));
  if (GetParam().killed) {
    KillWorkers(run->pid());
  } else {
    std::filesystem::resize_file(work.Path("text"), 100);
  }
  EXPECT_EQ(run->Wait().exit_code, 1);
  work.Write("text", text);

  // On to a step that is a little after the last checkpoint, wherever that is.
  int64_t last = 0;
  for (const auto& entry : std::filesystem::directory_iterator(work.Path("killed"))) {
    const std::string name = entry.path().filename();
    if (name.size() == std::string("step-000000007").size()) last = std::max<int64_t>(last, std::stol(name.substr(5)));
  }
  ASSERT_GE(last, 7);
  const std::vector<std::string> rest = Join(Join(Steps(last + 5), constant), common);
  const Outcome resumed = work.Run(Join(Join({"run", job, "--resume"}, rest), Saving(work.Path("killed"), 0)));
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_THAT(resumed.out, HasSubstr(absl::StrCat("goes on from step ", last, ", saved by ")));
  const Outcome whole = work.Run(Join(Join({"run", job}, rest), Saving(work.Path("whole"), 0)));
  EXPECT_EQ(whole.exit_code, 0) << whole.err;
  EXPECT_EQ(Difference(work, "killed", "whole"), "");
}

INSTANTIATE_TEST_SUITE_P(Models, KilledTest,
                         ::testing::Values(Ending{"Gpt", true, true}, Ending{"ConvNet", false, true},
                                           Ending{"GptThatCannotRead", true, false},
                                           Ending{"GptInParts", true, true, "{stage: 3}"}),
                         [](const auto& info) { return std::string(info.param.name); });

class RoundTripTest : public ::testing::TestWithParam<const char*> {};

// From layout to layout nothing is rounded, lost or left out.
TEST_P(RoundTripTest, EveryLayoutLoadsAndSavesEveryOther) {
  const Workspace work;
  const std::vector<std::string> common =
      Join(Join({"run", work.GptJob()}, Steps(6)), {"--set", absl::StrCat("precision.compute=", GetParam())});
  const Outcome first = work.Run(Join(Join(common, OnMesh("dp: 4", 2)), Saving(work.Path("0"), 0)));
  ASSERT_EQ(first.exit_code, 0) << first.err;
  const std::vector<std::vector<std::string>> layouts = {OnMesh("tp: 2 pp: 2", 2),
                                                         OnMesh("", 1),
                                                         OnMesh("dp: 3", 3),
                                                         OnMesh("dp: 2 tp: 2", 4),
                                                         OnMesh("dp: 4", 1),
                                                         Join(OnMesh("dp: 4", 2), {"--set", "zero={stage: 3}"}),
                                                         Join(OnMesh("dp: 2 tp: 2", 2), {"--set", "zero={stage: 1}"})};
  for (size_t i = 0; i < layouts.size(); ++i) {
    const std::string from = absl::StrCat(i), to = absl::StrCat(i + 1);
    const Outcome next = work.Run(Join(Join(Join(common, layouts[i]), Saving(work.Path(to), 0)),
                                       {absl::StrCat("--resume=", work.Path(from), "/step-000000006")}));
    ASSERT_EQ(next.exit_code, 0) << next.err;
    EXPECT_EQ(Difference(work, "0", to), "") << "layout " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, RoundTripTest, ::testing::Values("F32", "BF16"),
                         [](const auto& info) { return std::string(info.param); });

TEST(CheckpointJobTest, AnotherLayoutTrainsOnWithTheSameLosses) {
  const Workspace work;
  const std::string job = work.GptJob();
  const std::vector<double> want = work.Losses(job, Join(OnMesh("dp: 2 tp: 2", 2), Saving(work.Path("c"), 10)));
  ASSERT_THAT(want, SizeIs(20));
  const std::string tenth = absl::StrCat("--resume=", work.Path("c"), "/step-000000010");
  int other = 0;
  for (const auto& layout : {OnMesh("", 1), OnMesh("pp: 2 dp: 2", 2), OnMesh("dp: 3", 3)}) {
    const std::vector<double> got =
        work.Losses(job, Join(Join(layout, {tenth}), Saving(work.Path(absl::StrCat("other", other++)), 0)));
    ASSERT_THAT(got, SizeIs(10));
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i] / want[10 + i], 1, i == 0 ? 1e-6 : 1e-4) << "step " << 11 + i;
    }
  }
}

TEST(CheckpointJobTest, AnInterruptSavesBeforeItEnds) {
  const Workspace work;
  MetricsPipe metrics(work.Path("metrics"));
  const auto run = work.Start(Join(Join({"run", work.GptJob(), "--metrics", work.Path("metrics")}, Steps(100'000'000)),
                                   Join(OnMesh("dp: 2", 2), Saving(work.Path("c"), 0))));
  ASSERT_TRUE(metrics.AwaitSteps(3)) << run->Errors();
  run->Signal(SIGTERM);
  const Outcome ended = run->Wait(absl::Seconds(30));
  EXPECT_EQ(ended.exit_code, 130);
  EXPECT_THAT(ended.err, HasSubstr("saving a checkpoint, then ending job 1\n"));
  const Outcome good = work.Run({"checkpoint", "verify", work.Path("c")});
  EXPECT_EQ(good.exit_code, 0) << good.out << good.err;
  EXPECT_THAT(good.out, HasSubstr(": good, "));
}

TEST(CheckpointJobTest, ADamagedOneIsNamedAndTheOneBeforeIsTaken) {
  const Workspace work;
  const std::vector<std::string> job = Join({"run", work.GptJob()}, Saving(work.Path("c"), 5));
  ASSERT_EQ(work.Run(job).exit_code, 0);
  const std::string last = work.Path("c") + "/step-000000020/piece-00000.safetensors";
  std::string bytes = ReadFile(last);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 16);
  std::ofstream(last, std::ios::binary) << bytes;
  const Outcome resumed = work.Run(Join(job, {"--resume"}));
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_THAT(resumed.out, HasSubstr("the checkpoint of step 20 is damaged: "));
  EXPECT_THAT(resumed.out, HasSubstr("goes on from step 15"));
  EXPECT_EQ(work.Run({"checkpoint", "verify", work.Path("c")}).exit_code, 0) << "it was written anew";
}

TEST(CheckpointJobTest, AFolderWithCheckpointsIsNotWrittenOverUnasked) {
  const Workspace work;
  const std::vector<std::string> job = Join({"run", work.GptJob()}, Saving(work.Path("c"), 0));
  ASSERT_EQ(work.Run(job).exit_code, 0);
  const Outcome again = work.Run(job);
  EXPECT_EQ(again.exit_code, 1);
  EXPECT_THAT(again.err, HasSubstr("has checkpoints, the last of step 20: go on from it with --resume"));
  EXPECT_THAT(work.Run({"run", work.GptJob(), "--resume"}).err,
              HasSubstr("checkpoint is missing: where are its checkpoints?"));
}

// The model, not the machine, is what must be the same.
TEST(CheckpointJobTest, ACheckpointOfAnotherModelIsRefusedWithBothShapes) {
  const Workspace work;
  const std::vector<std::string> job = Join({"run", work.GptJob()}, Saving(work.Path("c"), 0));
  ASSERT_EQ(work.Run(job).exit_code, 0);
  const Outcome wider = work.Run(Join(job, {"--resume", "--set", "model.gpt.width=32"}));
  EXPECT_EQ(wider.exit_code, 1);
  EXPECT_THAT(wider.err, HasSubstr("tensor 'wpe/weight' is f32[16,16], the variable is f32[16,32]"));
}

}  // namespace
}  // namespace oneflow::e2e
