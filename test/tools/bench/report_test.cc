#include "tools/bench/report.h"

#include "gmock/gmock.h"
#include "nlohmann/json.hpp"

namespace oneflow {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// Two rounds of one layout at 1000 and 500 tokens/s, and PyTorch at 250.
BenchResult Example(bool with_pytorch) {
  BenchResult result{.model = "a GPT", .tokens_per_step = 100, .cores = 2, .warmup = 1, .steps = 3};
  CaseResult one{.name = "one-device", .title = "1 device"};
  for (const double seconds : {0.1, 0.2}) {
    Round round{.step_seconds = seconds, .losses = {5.25, 4}};
    round.counters = {.cpu_seconds = 0.5, .run_seconds = 1, .kernel_seconds = 0.75, .idle_seconds = 0.2, .acts = 10};
    one.rounds.push_back(round);
  }
  one.ops = {{.op = "matmul", .calls = 4, .seconds = 0.5, .share = 0.5, .flops_per_s = 2e9},
             {.op = "relu", .calls = 4, .seconds = 0.0001, .share = 0.0001, .bytes_per_s = 1e9}};
  one.profiled_run_seconds = 1;
  one.profiled_kernel_seconds = 0.75;
  result.cases.push_back(one);
  if (with_pytorch) {
    Round round{.step_seconds = 0.4, .losses = {5.25, 4}};
    round.counters.cpu_seconds = 1;
    result.cases.push_back({.name = "pytorch", .title = "PyTorch", .engine = false, .rounds = {round}});
  }
  return result;
}

TEST(ReportTest, ShowsMedianExtremesAndTheRatioToPyTorch) {
  const std::string text = ReportText(Example(/*with_pytorch=*/true));
  EXPECT_THAT(text, ContainsRegex("1 device +750 +\\(500\\.\\.1000\\) +0\\.5000 +3\\.00 +0\\.50 +5\\.250000"));
  EXPECT_THAT(text, ContainsRegex("PyTorch +250 "));
}

TEST(ReportTest, DividesTheTimeOfTheRanks) {
  // 0.05 s of a step are neither kernels nor sleep: 5000 us for each of the 10 acts.
  EXPECT_THAT(ReportText(Example(false)), ContainsRegex("1 device +10 +75000\\.0 +5000\\.00 +75\\.0% +20\\.0%"));
}

TEST(ReportTest, ListsOpsThatMatterAndAddsUpTheOthers) {
  const std::string text = ReportText(Example(false));
  EXPECT_THAT(text, ContainsRegex("matmul +4 +500\\.000 +50\\.0% +2\\.0 GF/s"));
  EXPECT_THAT(text, Not(HasSubstr("relu")));
  EXPECT_THAT(text, ContainsRegex("other ops +0\\.100"));
  EXPECT_THAT(text, ContainsRegex("outside kernels +250\\.000 +25\\.0%"));
}

TEST(ReportTest, WithoutPyTorchThereIsNoRatio) {
  EXPECT_THAT(ReportText(Example(false)), ContainsRegex("1 device +750 +\\(500\\.\\.1000\\) +0\\.5000 +- +- "));
}

TEST(ReportTest, JsonHasEveryRound) {
  const nlohmann::json json = nlohmann::json::parse(ReportJson(Example(true)));
  EXPECT_EQ(json["cases"][0]["rounds"][1]["tokens_per_s"], 500);
  EXPECT_EQ(json["cases"][0]["ops"][0]["op"], "matmul");
  EXPECT_EQ(json["cases"][1]["rounds"][0]["cpu_seconds"], 1);
  EXPECT_FALSE(json["cases"][1]["rounds"][0].contains("acts"));
}

}  // namespace
}  // namespace oneflow
