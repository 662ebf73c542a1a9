#include "tools/bench/report.h"

#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "test/support/names.h"

namespace oneflow {
namespace {

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

// Three rounds of a selection whose answer is not known to be the best, and of a job.
BenchResult WithCompilations() {
  BenchResult result{.load_average = 0.5};
  CompilationResult select{.name = "select-sbp", .title = "select-sbp: a large GPT"};
  select.work = {.nodes = 5432, .prices = 7000, .predicted_seconds = 0.0125, .lower_bound = 0.012};
  CompilationResult compile{.name = "compile", .title = "compile: job 'x'"};
  compile.work = {.nodes = 300, .ranks = 4, .actors = 120, .plan_bytes = 2.5e6};
  for (const double seconds : {2.0, 1.0, 4.0}) {
    select.rounds.push_back({.cpu_seconds = seconds, .wall_seconds = 2 * seconds});
    compile.rounds.push_back({.cpu_seconds = seconds / 10, .wall_seconds = seconds / 10});
  }
  result.compilations = {select, compile};
  return result;
}

TEST(ReportTest, ACompilationHasMedianExtremesAndWhatItDid) {
  const std::string text = ReportText(WithCompilations());
  EXPECT_THAT(text, ContainsRegex("load average 0\\.5 before"));
  EXPECT_THAT(text, ContainsRegex("a large GPT +2\\.000 +\\(1\\.000\\.\\.4\\.000\\) +4\\.000 +5432 nodes, 7000 prices; "
                                  "step predicted at 12\\.500 ms, at least 12\\.000 ms"));
  EXPECT_THAT(text, ContainsRegex("job 'x' +0\\.200 .*300 nodes written; 120 actors on 4 ranks, 2\\.50 MB of plan"));
  EXPECT_THAT(text, Not(HasSubstr("tokens")));
}

TEST(ReportTest, AnExactSelectionIsSaidToBeSo) {
  BenchResult result = WithCompilations();
  result.compilations[0].work.exact = true;
  EXPECT_THAT(ReportText(result), HasSubstr("step predicted at 12.500 ms, exact\n"));
}

TEST(ReportTest, CompilationsStandBehindWhatRan) {
  BenchResult result = Example(/*with_pytorch=*/false);
  result.compilations = WithCompilations().compilations;
  EXPECT_THAT(ReportText(result), ContainsRegex("outside kernels +250\\.000 +25\\.0%\n\ncompilation "));
}

TEST(ReportTest, JsonHasCompilationsWithTheirOwnFigures) {
  const nlohmann::json json = nlohmann::json::parse(ReportJson(WithCompilations()));
  EXPECT_EQ(json["compilations"][0]["lower_bound"], 0.012);
  EXPECT_EQ(json["compilations"][0]["exact"], false);
  EXPECT_FALSE(json["compilations"][0].contains("ranks"));
  EXPECT_EQ(json["compilations"][1]["actors"], 120);
  EXPECT_EQ(json["compilations"][1]["rounds"][2]["cpu_seconds"], 0.4);
  EXPECT_FALSE(json["compilations"][1].contains("prices"));
  EXPECT_FALSE(nlohmann::json::parse(ReportJson(Example(false))).contains("compilations"));
}

class OneFigure : public BenchCase {
 public:
  absl::StatusOr<std::string> RunRound() override { return "measured"; }
  std::string Text() const override { return "figure: 7\n"; }
  nlohmann::json Json() const override { return {{"figure", 7}}; }
};

TEST(ReportTest, ACaseOfItsOwnTellsItselfBehindTheOthers) {
  const OneFigure one;
  BenchResult result = Example(/*with_pytorch=*/false);
  result.others = {{"one-figure", &one}};
  EXPECT_THAT(ReportText(result), ContainsRegex("outside kernels +250\\.000 +25\\.0%\n\nfigure: 7\n$"));
  EXPECT_EQ(nlohmann::json::parse(ReportJson(result))["one-figure"]["figure"], 7);
}

}  // namespace
}  // namespace oneflow
