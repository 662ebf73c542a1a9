// `oneflow compile` and `oneflow plan show`, `check`, `diff`, `credits`, `simulate` and `explain`: what would run and
// why, without running it.
#include <fstream>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "test/e2e/oneflow_command.h"
#include "test/support/names.h"

namespace oneflow::e2e {
namespace {

std::string HashIn(const std::string& text) {
  const size_t at = text.find("sha256 ");
  return at == std::string::npos ? "no hash in: " + text : text.substr(at, 7 + 64);
}

TEST(PlanTest, APlanIsAFunctionOfItsJob) {
  const Workspace work;
  const std::vector<std::string> compile = Join({"compile", work.GptJob()}, OnMesh("pp: 2 dp: 2 tp: 2", 2));
  const Outcome first = work.Run(Join(compile, {"-o", work.Path("first")}));
  const Outcome second = work.Run(Join(compile, {"--output", work.Path("second")}));
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(HashIn(first.out).size(), 7 + 64) << first.out;
  EXPECT_EQ(HashIn(first.out), HashIn(second.out));
  EXPECT_TRUE(ReadFile(work.Path("first")) == ReadFile(work.Path("second")));
  EXPECT_NE(HashIn(work.Run(Join(compile, {"--set", "train.batch_size=16"})).out), HashIn(first.out));
}

TEST(PlanTest, AShownPlanIsTheSameFromItsFileAndItsJob) {
  const Workspace work;
  const std::string job = work.GptJob();
  ASSERT_EQ(work.Run({"compile", job, "--set", "mesh.dp=2", "-o", work.Path("plan")}).exit_code, 0);
  const Outcome from_file = work.Run({"plan", "show", work.Path("plan")});
  const Outcome from_job = work.Run({"plan", "show", job, "--set", "mesh.dp=2"});
  EXPECT_EQ(from_file.exit_code, 0) << from_file.err;
  EXPECT_EQ(from_file.out, from_job.out);
  for (const char* shown : {"rank", "private", "wte/weight", "registers", "actors", "matmul"}) {
    EXPECT_THAT(from_file.out, HasSubstr(shown));
  }
}

TEST(PlanTest, APlanFileIsProvedAndADamagedOneRefused) {
  const Workspace work;
  const std::string plan = work.Path("plan");
  ASSERT_EQ(work.Run(Join({"compile", work.GptJob(), "-o", plan}, OnMesh("pp: 2 dp: 2", 2))).exit_code, 0);
  const Outcome good = work.Run({"plan", "check", plan});
  ASSERT_EQ(good.exit_code, 0) << good.err;
  EXPECT_THAT(good.out, HasSubstr("acts in order: no deadlock\n"));
  const Outcome foreign = work.Run({"plan", "check", work.GptJob()});
  EXPECT_EQ(foreign.exit_code, 1);
  EXPECT_THAT(foreign.err, HasSubstr("is not a serialised plan set"));
  EXPECT_EQ(work.Run({"plan", "check", work.Path("none")}).exit_code, 1);
  // Twice the same plan set is one whose ranks are in two classes each.
  std::ofstream(work.Path("twice"), std::ios::binary) << ReadFile(plan) << ReadFile(plan);
  const Outcome twice = work.Run({"plan", "check", work.Path("twice")});
  EXPECT_EQ(twice.exit_code, 1);
  EXPECT_THAT(twice.err, HasSubstr("twice': "));
}

TEST(PlanTest, WhatChangedBetweenAFileAndAJobIsSaid) {
  const Workspace work;
  const std::string plan = work.Path("plan"), job = work.GptJob();
  ASSERT_EQ(work.Run({"compile", job, "--set", "mesh.dp=2", "-o", plan}).exit_code, 0);
  const Outcome same = work.Run({"plan", "diff", plan, job, "--set", "mesh.dp=2"});
  EXPECT_EQ(same.exit_code, 0) << same.err;
  EXPECT_EQ(same.out, "nothing changed\n");
  const Outcome split = work.Run({"plan", "diff", job, job, "--set", "mesh.dp=2", "--set-other", "mesh.dp=1"});
  ASSERT_EQ(split.exit_code, 0) << split.err;
  for (const char* said : {"hosts: 2 ranks", "plan 'train'\n", "  boxings\n    - ", "  moved per step: "}) {
    EXPECT_THAT(split.out, HasSubstr(said));
  }
}

TEST(PlanTest, ASimulatedStepIsComparedWithARealOne) {
  const Workspace work;
  const std::vector<std::string> job = Join({work.GptJob(), "--set", "train.steps=6"}, OnMesh("dp: 2", 2));
  const std::string real = work.Path("real.json"), simulated = work.Path("simulated.json");
  ASSERT_EQ(work.Run(Join({"run"}, Join(job, {"--trace", real}))).exit_code, 0);
  const std::vector<std::string> simulate = Join({"plan", "simulate"}, job);
  const Outcome measured = work.Run(Join(simulate, {"--costs", real, "--trace", simulated}));
  ASSERT_EQ(measured.exit_code, 0) << measured.err;
  for (const char* said :
       {"plan 'train' on 2 ranks: ", "forward\n", "backward: gradients of weights\n", "optimizer\n",
        "bubble: others compute\n", "communication twice as fast\n", ": memory of a rank, by what it is for"}) {
    EXPECT_THAT(measured.out, HasSubstr(said));
  }
  const Outcome compared = work.Run({"trace", "compare", real, simulated});
  EXPECT_EQ(compared.exit_code, 0) << compared.err;
  const Outcome other = work.Run(Join(simulate, {"--costs", real, "--set", "train.batch_size=16"}));
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_THAT(other.err, HasSubstr("the trace is of another plan: its sha256 is "));
  const Outcome predicted = work.Run(Join(simulate, {"--steps", "3", "--plan", "none"}));
  EXPECT_EQ(predicted.exit_code, 1);
  EXPECT_THAT(predicted.err, HasSubstr("--plan: there is no plan 'none'; there are: train"));
}

TEST(PlanTest, ASimulationTellsWhatMeansOfGroupsCost) {
  const Workspace work;
  const std::vector<std::string> job = Join({"plan", "simulate", work.GptJob()}, OnMesh("dp: 2", 2));
  const Outcome late = work.Run(Join(job, {"--set", "sync={co2: {tau: 8}}"}));
  ASSERT_EQ(late.exit_code, 0) << late.err;
  EXPECT_THAT(late.out, HasSubstr("\nrounds of 8 steps: a mean takes "));
  EXPECT_THAT(late.out, HasSubstr(" steps or more hide; a step takes "));
  const Outcome at_once = work.Run(Join(job, {"--set", "sync={co2: {tau: 8 delay: 0}}"}));
  ASSERT_EQ(at_once.exit_code, 0) << at_once.err;
  EXPECT_THAT(at_once.out, HasSubstr(" ms, behind them; a step takes "));
  EXPECT_THAT(work.Run(job).out, Not(HasSubstr("rounds of")));
}

TEST(PlanTest, ASimulationTellsWhatGradientsAtOtherPointsCost) {
  const Workspace work;
  const std::vector<std::string> job = Join({"plan", "simulate", work.GptJob()}, OnMesh("dp: 2", 2));
  const auto with = [&](const std::string& optimizer) {
    return work.Run(Join(job, {"--set", absl::StrCat("train.optimizer={", optimizer, "}")})).out;
  };
  const std::string half = with("extragradient {}"), anchor = with("masha {probability: 0.1}");
  EXPECT_THAT(half, HasSubstr("\nbefore each step another gradient: "));
  EXPECT_THAT(half, HasSubstr(" ms with that\n"));
  EXPECT_THAT(anchor, HasSubstr("\nbehind one step in 10 a gradient for the anchor: "));
  EXPECT_THAT(anchor, HasSubstr(" ms with that\n"));
  const std::string once = with("optimistic {}");
  EXPECT_THAT(once, HasSubstr(" ms a step\n"));
  EXPECT_THAT(once, Not(HasSubstr(" ms with that\n")));
}

TEST(PlanTest, AStepIsPredictedByKernelsThatWereMeasured) {
  const Workspace work;
  const std::vector<std::string> job = Join({work.GptJob()}, OnMesh("dp: 2", 2));
  const std::string kernels = work.Path("kernels.pbtxt");
  const Outcome measured = work.Run(Join({"bench", "kernels"}, Join(job, {"--steps", "3", "--output", kernels})));
  ASSERT_EQ(measured.exit_code, 0) << measured.err;
  EXPECT_THAT(measured.out, HasSubstr("2 ranks at once"));
  const std::vector<std::string> simulate = Join({"plan", "simulate"}, Join(job, {"--kernels", kernels}));
  const Outcome simulated = work.Run(simulate);
  ASSERT_EQ(simulated.exit_code, 0) << simulated.err;
  EXPECT_THAT(simulated.out, HasSubstr("instructions as measured, 2 ranks at once\nplan 'train' on 2 ranks: "));
  const Outcome other = work.Run(Join(simulate, {"--set", "train.batch_size=16"}));
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_THAT(other.err, HasSubstr("was not measured: "));
  const Outcome asked = work.Run(Join(simulate, {"--set", "train.batch_size=16", "--kernels-or-roofline"}));
  EXPECT_EQ(asked.exit_code, 0) << asked.err;
  const Outcome threads = work.Run(Join(simulate, {"--set", "cluster.cores_per_process=7"}));
  EXPECT_EQ(threads.exit_code, 1);
  EXPECT_THAT(threads.err, HasSubstr("the job is for cpu with 7"));
}

TEST(PlanTest, OneRankOfThoseThatAreAlikeIsPlayed) {
  const Workspace work;
  const std::vector<std::string> simulate = Join({"plan", "simulate", work.GptJob()}, OnMesh("dp: 4", 1));
  const Outcome folded = work.Run(simulate), all = work.Run(Join(simulate, {"--all-ranks"}));
  ASSERT_EQ(folded.exit_code, 0) << folded.err;
  EXPECT_THAT(folded.out, HasSubstr("2 ranks are played, which stand for all 4\n"));
  EXPECT_THAT(all.out, Not(HasSubstr("are played")));
  const auto step = [](const Outcome& of) {
    const size_t at = of.out.find("plan 'train' on 4 ranks: ");
    return at == std::string::npos ? "no step in: " + of.out : of.out.substr(at, of.out.find('\n', at) - at);
  };
  EXPECT_EQ(step(folded), step(all));
}

TEST(PlanTest, WhatGoesWrongIsSimulatedToo) {
  const Workspace work;
  const std::vector<std::string> simulate = Join({"plan", "simulate", work.GptJob()}, OnMesh("dp: 4", 1));
  const auto ms = [&](const std::vector<std::string>& more) {
    const Outcome outcome = work.Run(Join(simulate, more));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    const std::string before = "plan 'train' on 4 ranks: ";
    return std::stod(outcome.out.substr(outcome.out.find(before) + before.size()));
  };
  const double usual = ms({});
  EXPECT_GT(ms({"--slow", "2=3"}), 1.5 * usual);
  EXPECT_GT(ms({"--delay", "1"}), usual);
  std::ofstream(work.Path("slow")) << "emulated_ms_per_mb: 1000\n";
  EXPECT_GT(ms({"--cluster", work.Path("slow")}), usual);
  const Outcome killed = work.Run(Join(simulate, {"--kill", "2@0.001"}));
  EXPECT_EQ(killed.exit_code, 0) << killed.err;
  EXPECT_THAT(killed.out, HasSubstr("actors are not done; rank 2 died at 0.001 ms:\n"));
  EXPECT_THAT(killed.out, HasSubstr("plan 'train' is stuck after "));
  for (const auto& [flag, value, said] : {std::tuple("--slow", "9=2", "--slow '9=2': there is no rank 9 of 4"),
                                          {"--kill", "2", "--kill '2': is no rank and positive number"},
                                          {"--cluster", "none", "--cluster 'none': cannot open: No such file"}}) {
    const Outcome wrong = work.Run(Join(simulate, {flag, value}));
    EXPECT_EQ(wrong.exit_code, 1);
    EXPECT_THAT(wrong.err, HasSubstr(said));
  }
}

TEST(PlanTest, CreditsAreSolvedByWhatATraceMeasured) {
  const Workspace work;
  const std::string job = work.GptJob(), trace = work.Path("t.json");
  ASSERT_EQ(work.Run({"run", job, "--set", "mesh.dp=2", "--trace", trace}).exit_code, 0);
  const Outcome credits = work.Run({"plan", "credits", job, "--set", "mesh.dp=2", "--costs", trace});
  ASSERT_EQ(credits.exit_code, 0) << credits.err;
  for (const char* said : {"plan 'train' with its slots: ", " ms a step\n", "best of all: "}) {
    EXPECT_THAT(credits.out, HasSubstr(said));
  }
  // What is saved a job takes, and its plan has these slots.
  const std::string slots = work.Path("slots.pbtxt");
  const std::vector<std::string> again = {"plan", "credits", job, "--set", "mesh.dp=2", "--costs", trace};
  ASSERT_EQ(work.Run(Join(again, {"--period-ms", "60000", "--save", slots})).exit_code, 0);
  EXPECT_THAT(ReadFile(slots), HasSubstr("plans {\n  name: \"train\"\n  registers { name: \""));
  EXPECT_EQ(work.Run({"run", job, "--set", "mesh.dp=2", "--set", "slots=" + slots}).exit_code, 0);
  EXPECT_THAT(work.Run({"plan", "diff", job, job, "--set", "mesh.dp=2", "--set-other", "slots=" + slots}).out,
              HasSubstr("slots"));
  const Outcome stranger = work.Run({"plan", "show", job, "--set", "mesh.dp=1", "--set", "slots=" + slots});
  EXPECT_EQ(stranger.exit_code, 1);
  EXPECT_THAT(stranger.err, HasSubstr("there is no such register in plan 'train'"));
  EXPECT_THAT(work.Run(Join(again, {"--period-ms", "0.0001"})).err, HasSubstr("no slots make a step as short as"));
  EXPECT_THAT(work.Run(Join(again, {"--memory-mb", "0.0001"})).err, HasSubstr("bytes on a device, the cap is 100"));
  const Outcome foreign = work.Run({"plan", "credits", job, "--set", "mesh.dp=1", "--costs", trace});
  EXPECT_EQ(foreign.exit_code, 1);
  EXPECT_THAT(foreign.err, HasSubstr("the trace is of another plan"));
}

TEST(PlanTest, GraphsArePrintedAfterAPass) {
  const Workspace work;
  const Outcome one = work.Run({"compile", work.GptJob(), "--set", "mesh.dp=2", "--dump-after", "autodiff"});
  ASSERT_EQ(one.exit_code, 0) << one.err;
  EXPECT_THAT(one.out, HasSubstr("# after autodiff\ngraph \"train\"\n"));
  EXPECT_THAT(one.out, Not(HasSubstr("# after insert-boxing")));
  const Outcome all = work.Run({"compile", work.GptJob(), "--set", "mesh.dp=2", "--dump-after", "all"});
  EXPECT_THAT(all.out, HasSubstr("# after autodiff\n"));
  EXPECT_THAT(all.out, HasSubstr("# after insert-boxing\n"));
}

TEST(PlanTest, AJobIsExplainedByWhatItCostsAndMoves) {
  const Workspace work;
  const Outcome text = work.Run(Join({"plan", "explain", work.GptJob()}, OnMesh("dp: 2 tp: 2", 2)));
  ASSERT_EQ(text.exit_code, 0) << text.err;
  for (const char* said : {"job 'gpt': 1 graph on mesh [dp=2,tp=2], 4 ranks in 2 processes", "graph 'train'",
                           "boxings, dearest first", "all-reduce along tp", "between processes", "gpt.cc:"}) {
    EXPECT_THAT(text.out, HasSubstr(said));
  }
}

TEST(PlanTest, ATensorIsExplainedByItsName) {
  const Workspace work;
  const std::vector<std::string> on_mesh = OnMesh("dp: 2 tp: 2", 2);
  const std::string job = work.GptJob();
  const Outcome weight = work.Run(Join({"plan", "explain", job, "h0/mlp/up/weight"}, on_mesh));
  ASSERT_EQ(weight.exit_code, 0) << weight.err;
  EXPECT_THAT(weight.out, HasSubstr("tensor 'h0/mlp/up/weight' of graph 'train': f32[16,64], forward\n"));
  EXPECT_THAT(weight.out, HasSubstr("tp  S(1)    dimension 1 of 64 in 2 parts; asked for as tp:S(1) at "));
  const Outcome list = work.Run(Join({"plan", "explain", job, "h0/mlp/up"}, on_mesh));
  EXPECT_EQ(list.exit_code, 0) << list.err;
  EXPECT_THAT(list.out, HasSubstr("  h0/mlp/up/matmul "));
  const Outcome unknown = work.Run(Join({"plan", "explain", job, "h0/mlp/upp/weight"}, on_mesh));
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.err,
              HasSubstr("there is no tensor 'h0/mlp/upp/weight'; the nearest names are 'h0/mlp/up/weight'"));
}

TEST(PlanTest, AnExplanationIsAPageThatStandsAlone) {
  const Workspace work;
  const std::string page = work.Path("plan.html");
  const Outcome wrote = work.Run(Join({"plan", "explain", work.GptJob(), "--html", page}, OnMesh("dp: 2 tp: 2", 2)));
  ASSERT_EQ(wrote.exit_code, 0) << wrote.err;
  EXPECT_EQ(wrote.out, "wrote " + page + "\n");
  const std::string html = ReadFile(page);
  for (const char* part : {"<!DOCTYPE html>", "h0/mlp/up/weight", "</html>"}) EXPECT_THAT(html, HasSubstr(part));
  const Outcome nowhere = work.Run({"plan", "explain", work.GptJob(), "--html", work.Path("none/plan.html")});
  EXPECT_EQ(nowhere.exit_code, 1);
  EXPECT_THAT(nowhere.err, HasSubstr("none/plan.html': cannot write: No such file or directory"));
}

}  // namespace
}  // namespace oneflow::e2e
