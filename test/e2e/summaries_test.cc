// Jobs with a folder for TensorBoard, read by TensorBoard's own readers.
#include <signal.h>

#include <algorithm>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "test/e2e/oneflow_command.h"
#include "test/e2e/processes.h"
#include "test/support/paths.h"
#include "test/support/status_matchers.h"
#include "test/support/weight_file.h"
#include "tools/control/process/child.h"

namespace oneflow::e2e {
namespace {

// What they find in this folder of the workspace.
nlohmann::json ReadEvents(const Workspace& work, const std::string& folder) {
  const std::string packages = SourceDir() + "/build/python";
  EXPECT_TRUE(std::filesystem::exists(packages + "/tensorboard")) << "tools/test installs what reads event files";
  ChildOptions options;
  options.executable = "/usr/bin/python3";
  options.arguments = {"python3", SourceDir() + "/test/e2e/read_events.py", packages, work.Path(folder)};
  options.log_path = work.Path("events.json");
  auto child = ChildProcess::Start(std::move(options), [](ChildExit) {});
  EXPECT_TRUE(child.ok() && (*child)->WaitForExit(absl::Seconds(60)));
  const std::string text = ReadFile(work.Path("events.json"));
  const size_t begin = text.rfind("{\"scalars\"");  // behind what the packages warn of
  EXPECT_NE(begin, text.npos) << text;
  return begin == text.npos ? nlohmann::json() : nlohmann::json::parse(text.substr(begin));
}

std::vector<int64_t> StepsOf(const nlohmann::json& scalar) {
  std::vector<int64_t> steps;
  for (const auto& event : scalar) steps.push_back(event[0]);
  return steps;
}

// Two processes, each of which fetches what the other does not: one file has all.
TEST(SummariesTest, HaveAllThatAJobFetches) {
  const Workspace work;
  const std::vector<nlohmann::json> metrics = work.Metrics(
      work.GptJob(),
      Join(OnMesh("pp: 2", 2), {"--set", "tensorboard=" + work.Path("board"), "--set", "train.micro_batches=2", "--set",
                                "evaluate={every: 10 batches: 2}", "--set",
                                "generate={tokens: 12 prompt: 'the\\nriver'}", "--set", "precision.compute=F16"}));
  ASSERT_THAT(metrics, SizeIs(20));
  const nlohmann::json events = ReadEvents(work, "board");
  const nlohmann::json& scalars = events.at("scalars");
  for (const char* name : {"loss", "lr", "grad_norm", "loss_scale", "skipped"}) {
    const nlohmann::json& curve = scalars.at(absl::StrCat("train/", name));
    ASSERT_THAT(curve, SizeIs(20)) << name;
    for (int step = 0; step < 20; ++step) {
      EXPECT_EQ(curve[step][0], step + 1) << name;
      const nlohmann::json& known = metrics[step].at(name);
      if (!known.is_number()) continue;  // gradients that overflow
      EXPECT_FLOAT_EQ(curve[step][1], known) << name << " of step " << step + 1;
    }
  }
  EXPECT_THAT(StepsOf(scalars.at("validation/loss")), ElementsAre(10, 20));
  EXPECT_FLOAT_EQ(scalars.at("validation/loss")[1][1], metrics[19].at("validation_loss"));
  EXPECT_GT(scalars.at("train/tokens_per_s")[0][1], 0);
  EXPECT_THAT(events.at("served"), Contains("train/loss"));
  const nlohmann::json& text = events.at("texts").at("generated");
  ASSERT_THAT(text, SizeIs(1));
  EXPECT_EQ(text[0][0], 20);
  EXPECT_THAT(text[0][1].get<std::string>(), StartsWith("    the\n    river"));
}

// How many of the values of a weight file lie in each bucket that is shown: they are those of all processes together.
void ExpectCounts(const testing::WeightFile::Entry& weight, const nlohmann::json& known, const nlohmann::json& shown) {
  const auto* const values = weight.as<float>();
  const auto num = weight.type.shape.count();
  EXPECT_EQ(known.at("num"), num);
  EXPECT_EQ(known.at("min"), *std::min_element(values, values + num));
  EXPECT_EQ(known.at("max"), *std::max_element(values, values + num));
  double sum = 0, squares = 0;
  for (const double value : absl::MakeConstSpan(values, num)) sum += value, squares += value * value;
  EXPECT_NEAR(known.at("sum"), sum, 1e-12 * static_cast<double>(num));
  EXPECT_NEAR(known.at("sum_squares"), squares, 1e-12 * static_cast<double>(num));
  int64_t all = 0;
  for (const nlohmann::json& bucket : shown) {
    const double left = bucket[0], right = bucket[1];
    EXPECT_LE(left, right);
    const auto inside = [left, right](float v) { return left <= v && v <= right; };
    // An edge of two buckets may be a value.
    EXPECT_GE(std::count_if(values, values + num, inside), bucket[2].get<int64_t>());
    all += bucket[2].get<int64_t>();
  }
  EXPECT_EQ(all, num);
}

TEST(SummariesTest, HaveHistogramsOfWeightsAndKeptGradientsIfAsked) {
  const Workspace work;
  const Outcome run =
      work.Run(Join(Join({"run", work.GptJob()}, OnMesh("pp: 2 tp: 2", 2)),
                    {"--set", "tensorboard=" + work.Path("board"), "--set", "tensorboard_histograms_every=10",
                     "--save-weights", work.Path("weights"), "--save-gradients", work.Path("gradients")}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const nlohmann::json events = ReadEvents(work, "board");
  for (const char* const what : {"weights", "gradients"}) {
    ASSERT_OK_AND_ASSIGN(const testing::WeightFile file, testing::ReadWeightFile(work.Path(what)));
    ASSERT_THAT(file.tensors, Not(IsEmpty()));
    for (const auto& [name, weight] : file.tensors) {
      SCOPED_TRACE(absl::StrCat(what, "/", name));
      const nlohmann::json& known = events.at("histograms").at(absl::StrCat(what, "/", name));
      const nlohmann::json& shown = events.at("shown").at(absl::StrCat(what, "/", name));
      ASSERT_THAT(StepsOf(known), ElementsAre(10, 20));
      ASSERT_THAT(StepsOf(shown), ElementsAre(10, 20));
      ExpectCounts(weight, known[1][1], shown[1][1]);
    }
  }
}

// What processes tell each other of many variables, or after an evaluation, is more than one message of theirs holds.
TEST(SummariesTest, HoldHoweverManyVariablesThereAre) {
  const Workspace work;
  const Outcome run =
      work.Run(Join({"run", work.GptJob(), "--set", "tensorboard=" + work.Path("board"), "--set", "train.steps=4",
                     "--set", "model.gpt.layers=96", "--set", "tensorboard_histograms_every=2"},
                    OnMesh("dp: 2", 2)));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const nlohmann::json histograms = ReadEvents(work, "board").at("histograms");
  EXPECT_GT(histograms.size(), 96u * 10);
  for (const auto& [name, histogram] : histograms.items()) EXPECT_THAT(StepsOf(histogram), ElementsAre(2, 4)) << name;
}

TEST(SummariesTest, HoldHoweverLongAnEvaluationIs) {
  const Workspace work;
  const Outcome run = work.Run(Join({"run", work.GptJob(), "--set", "tensorboard=" + work.Path("board"), "--set",
                                     "train.steps=4", "--set", "evaluate={every: 2 batches: 4000}"},
                                    OnMesh("dp: 2", 2)));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const nlohmann::json scalars = ReadEvents(work, "board").at("scalars");
  EXPECT_THAT(StepsOf(scalars.at("train/loss")), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(StepsOf(scalars.at("validation/loss")), ElementsAre(2, 4));
}

// And not the mark of its owner, which a process leaves that is ended before it has put everything away.
bool IsOfEvents(const std::filesystem::directory_entry& file) {
  return absl::StartsWith(file.path().filename().string(), "events.");
}

// An attempt that goes on from a checkpoint trains steps again: what the former one said of them is void. It trains
// until it is ended, so that its workers are killed while it does, however fast they are.
TEST(SummariesTest, CountEveryStepOnceAcrossAttempts) {
  const Workspace work;
  const auto run = work.Start({"run", work.GptJob(), "--metrics", work.Path("metrics"), "--set",
                               "tensorboard=" + work.Path("board"), "--set", "restart={attempts: 2}", "--set",
                               "train.steps=100000000", "--set", "train.schedule.kind=constant", "--set",
                               absl::StrCat("checkpoint={path: '", work.Path("checkpoints"), "' every: 100}")});
  ASSERT_TRUE(AwaitLines(work.Path("metrics"), 300)) << run->Errors();
  for (Process& process : DescendantsOf(run->pid())) {
    if (absl::StrContains(process.command, " worker ")) process.Kill(SIGKILL);
    process.Close();
  }
  const auto lines = [&work] { return static_cast<int>(LinesIn(work.Path("metrics")).size()); };
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (!absl::StrContains(ReadFile(work.Path("out.1")), "goes on from step") && absl::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  ASSERT_TRUE(AwaitLines(work.Path("metrics"), lines() + 300)) << run->Errors();
  run->Signal(SIGINT);
  const Outcome ended = run->Wait();
  ASSERT_EQ(ended.exit_code, 130) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("goes on from step"));
  const auto files = std::filesystem::directory_iterator(work.Path("board"));
  EXPECT_EQ(std::count_if(begin(files), end(files), IsOfEvents), 2);
  const nlohmann::json scalars = ReadEvents(work, "board").at("scalars");
  const std::vector<int64_t> steps = StepsOf(scalars.at("train/loss"));
  ASSERT_GE(steps.size(), 400u);
  for (size_t step = 0; step < steps.size(); ++step) ASSERT_EQ(steps[step], static_cast<int64_t>(step) + 1);
}

TEST(SummariesTest, AFolderThatCannotBeMadeEndsTheJobAtOnce) {
  const Workspace work;
  work.Write("file", "");
  const Outcome run = work.Run({"run", work.GptJob(), "--set", absl::StrCat("tensorboard=", work.Path("file/board"))});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr(absl::StrCat("tensorboard: '", work.Path("file/board"), "': cannot make")));
}

}  // namespace
}  // namespace oneflow::e2e
