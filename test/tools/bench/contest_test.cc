#include "tools/bench/contest.h"

#include <cmath>

#include "gmock/gmock.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

Round OfStep(double step_seconds, double cpu_seconds, double peak_bytes, std::vector<double> losses) {
  Round round{.step_seconds = step_seconds, .losses = std::move(losses)};
  round.counters.cpu_seconds = cpu_seconds;
  round.counters.peak_bytes = peak_bytes;
  round.counters.register_bytes = peak_bytes / 2;
  return round;
}

// Two rounds: the machine was half as fast in the second, for all alike.
Contest Example() {
  Contest contest{.title = "tiny: a model", .unit = "tokens", .per_step = 100, .cores = 2, .warmup = 1, .steps = 1};
  contest.engine = {.name = "one-device", .title = "engine, 1 device"};
  contest.engine.rounds = {OfStep(1, 2, 3e9, {4, 2}), OfStep(2, 4, 3e9, {4, 2})};
  Contender eager{.name = "eager", .title = "PyTorch eager"}, compile{.name = "compile", .title = "PyTorch compile"};
  eager.rounds = {OfStep(3, 4, 5e9, {4, 2}), OfStep(6, 8, 5e9, {4, 2})};
  compile.rounds = {OfStep(1.5, 4, 6e9, {4, 2.5}), OfStep(3, 8, 6e9, {4, 2.5})};
  contest.peers = {eager, compile};
  return contest;
}

TEST(ContestTest, NamesTheFastestModeAndComparesWithIt) {
  const std::string text = ContestText(Example());
  EXPECT_THAT(text, HasSubstr("against PyTorch compile, the fastest: speed 1.50 x (1.50..1.50), cpu time 0.50 x "
                              "(0.50..0.50), peak memory 0.50 x\n"));
  EXPECT_THAT(text, ContainsRegex("engine, 1 device +1\\.5000 +\\(1\\.0000\\.\\.2\\.0000\\) +3\\.0000 +67 +3\\.00 +"
                                  "4\\.000000 +2\\.000000\n"));
  EXPECT_THAT(text, HasSubstr("losses: 2.0e-01 apart at most (relative, in step 2)\n"));
  EXPECT_THAT(text, HasSubstr("peak memory 3000.0 MB, of which the plan has 1500.0 MB: 2.000 x\n"));
}

TEST(ContestTest, AModeThatCannotRunSaysWhyInItsRow) {
  Contest contest = Example();
  contest.peers[1].rounds.clear();
  contest.peers[1].cannot = "PyTorch 1.13.1 has no torch.compile";
  EXPECT_EQ(FastestPeer(contest)->name, "eager");
  const std::string text = ContestText(contest);
  EXPECT_THAT(text, HasSubstr("  PyTorch compile: PyTorch 1.13.1 has no torch.compile\n"));
  EXPECT_THAT(text, HasSubstr("against PyTorch eager, the fastest: speed 3.00 x"));
}

TEST(ContestTest, WithoutPyTorchNothingIsCompared) {
  Contest contest = Example();
  contest.peers.clear();
  EXPECT_EQ(FastestPeer(contest), nullptr);
  EXPECT_THAT(ContestText(contest), Not(HasSubstr("against")));
  EXPECT_FALSE(ContestJson(contest).contains("fastest_peer"));
}

TEST(ContestTest, LayoutsAreHeldAgainstOneDevice) {
  Contest contest = Example();
  Contender& layout = contest.layouts.emplace_back();
  layout.title = "engine, dp2";
  layout.rounds = {OfStep(1.25, 2, 3e9, {4, 2}), OfStep(2, 4, 3e9, {4, 2})};
  EXPECT_THAT(ContestText(contest), HasSubstr("  engine, dp2: 0.90 x (0.80..1.00) of one device's speed\n"));
}

TEST(ContestTest, KernelsStandBesideTheirFloors) {
  Contest contest = Example();
  contest.rates = {.f32_flops = 4e11, .bf16_flops = 3e12, .memory_bytes_per_s = 3e10};
  contest.ops = {{.op = "matmul", .calls = 4, .seconds = 0.75, .floor_seconds = 0.5},
                 {.op = "add", .calls = 2, .seconds = 0.001, .floor_seconds = 0.001},
                 {.op = "fetch", .calls = 1, .seconds = 0.001}};
  contest.profiled_run_seconds = 1;
  contest.profiled_kernel_seconds = 0.752;
  const std::string text = ContestText(contest);
  EXPECT_THAT(text, HasSubstr("products at 400 GF/s in f32 and 3000 in bf16, memory at 30.0 GB/s"));
  EXPECT_THAT(text, ContainsRegex("matmul +4 +750\\.000 +500\\.000 +1\\.50 x +75\\.0%\n"));
  EXPECT_THAT(text, ContainsRegex("others +3 +2\\.000 +1\\.000 +2\\.00 x +0\\.2%\n"));
  EXPECT_THAT(text, ContainsRegex("all +7 +752\\.000 +501\\.000 +1\\.50 x +75\\.2%\n"));
  EXPECT_THAT(text, HasSubstr("outside of kernels 248.000 ms"));
}

TEST(ContestTest, ProgramsReadEveryRoundAndTheRatios) {
  const nlohmann::json json = ContestJson(Example());
  EXPECT_EQ(json["fastest_peer"], "compile");
  EXPECT_THAT(json["speed_over_peer"].get<double>(), DoubleEq(1.5));
  EXPECT_THAT(json["cpu_over_peer"].get<double>(), DoubleEq(0.5));
  EXPECT_EQ(json["peers"][0]["rounds"][1]["step_seconds"], 6);
}

TEST(LossGapTest, IsTheLargestOfTheStepsThatBothHave) {
  EXPECT_THAT(LargestGap({1, 2, 9}, {1, 2.5}).relative, DoubleEq(0.2));
  EXPECT_EQ(LargestGap({1, 2, 9}, {1, 2.5}).step, 2);
  EXPECT_EQ(LargestGap({1}, {}).step, 0);
}

TEST(LossGapTest, ALossThatIsNoNumberIsFartherThanAny) {
  const LossGap gap = LargestGap({1, NAN, 9}, {1, 2, 3});
  EXPECT_EQ(gap.step, 2);
  EXPECT_TRUE(std::isnan(gap.relative));
}

}  // namespace
}  // namespace oneflow
