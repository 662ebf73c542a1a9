// What codes and late means bring on a slow link: the quickstart's GPT on two hosts, a core each, 100 Mbit/s each way.
// Real time for some minutes, so not part of every test run; nothing else should run meanwhile:
//
//   ONEFLOW_LINKS=1 [ONEFLOW_PYTORCH=python3] e2e_test --gtest_filter=CodedLinksTest.*
//
// PyTorch's DDP is measured with its own PowerSGD.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "test/e2e/across_hosts.h"
#include "test/support/paths.h"
#include "tools/job/median.h"

namespace oneflow::e2e {
namespace {

constexpr double kSlowMegabits = 100;
constexpr double kOfMessages = 0.94;  // of a link's rate, what headers of packets leave (`oneflow bench --cases links`)
constexpr int kTokensOfSample = 128, kHosts = 2;
constexpr double kSimulated = 0.1;                             // that a simulated step may be from a measured one
constexpr int kTurns = 7;                                      // of simulating and measuring
constexpr char kPeer[] = "--sizes 4 128 4 128 16 --steps 40";  // 16 samples of a host
constexpr absl::Duration kLongestRun = absl::Minutes(10);

struct Ran {
  double seconds = 0;  // of a step, mean
  double median = 0;   // without the times when TCP on a shaped link stands still for a tenth of a second
  double loss = 0;     // mean of the last tenth
  double validation = 0;
  int64_t sent = 0;  // by both hosts, as their interfaces counted, without headers of packets
};

class CodedLinksTest : public AcrossHosts {
 protected:
  void SetUp() override {
    AcrossHosts::SetUp();
    if (std::getenv("ONEFLOW_LINKS") == nullptr) GTEST_SKIP() << "ONEFLOW_LINKS asks for what takes minutes";
    core_each_ = true;
    Stand(kHosts, 1);
    ASSERT_OK(hosts_->Shape(kSlowMegabits));
    work_.Write("text", ReadFile(SourceDir() + "/data/kjv.txt"));  // where daemons let jobs read
  }

  // The quickstart's model in `batch` samples a step; `beta1` of AdamW.
  std::string Job(int steps, int batch, const std::string& policy, double beta1 = 0.9) const {
    return work_.Write("job.pbtxt",
                       absl::StrCat("name: 'coded' model { gpt { layers: 4 width: 128 heads: 4 context: ",
                                    kTokensOfSample, " } } data { text { path: '", work_.Path("text"),
                                    "' } } mesh { dp: 2 } cluster { hosts { "
                                    "count: 2 devices: 1 nics { link: 'ethernet' gbit_per_s: ",
                                    kOfMessages * kSlowMegabits / 1000, " } } } train { steps: ", steps,
                                    " batch_size: ", batch, " optimizer { adamw { beta1: ", beta1,
                                    " weight_decay: 0.1 } clip_norm: 1 } schedule { "
                                    "learning_rate: 1e-3 kind: 'cosine' warmup_steps: 20 } } evaluate { batches: 8 } ",
                                    policy));
  }
  Ran Train(int steps, int batch, const std::string& policy, double beta1 = 0.9) const {
    Ran ran;
    const int64_t before = BytesSent();
    const std::vector<nlohmann::json> lines =
        work_.Metrics(Job(steps, batch, policy, beta1), At(), hosts_->In(0), kLongestRun);
    ran.sent = BytesSent() - before;
    std::vector<double> seconds;
    int last = 0;
    for (const nlohmann::json& line : lines) {
      if (!line.contains("loss")) continue;
      const int step = line.at("step");
      if (step > steps / 5) {  // behind exact ones
        const double rate = line.at("tokens_per_s");
        // Else it came at the moment of the one before.
        seconds.push_back(rate > 0 ? batch * kTokensOfSample / rate : 0);
      }
      if (step > steps - std::max(1, steps / 10)) {
        ran.loss += line.at("loss").get<double>();
        ++last;
      }
      ran.validation = line.value("validation_loss", ran.validation);
    }
    EXPECT_EQ(lines.empty() ? 0 : lines.back().value("step", 0), steps);
    for (const double step : seconds) ran.seconds += step / static_cast<double>(seconds.size());
    if (!seconds.empty()) ran.median = Median(seconds);
    ran.loss /= std::max(1, last);
    return ran;
  }
  // A step of the first plan, by what its kernels take on one of these cores and what the job says of the link.
  double SimulatedSeconds(int batch, const std::string& policy) const {
    const std::string job = Job(500, batch, policy), kernels = work_.Path("kernels");
    // Both cores compute, as when the job runs.
    const auto beside = work_.Start({"bench", "kernels", job, "--output", work_.Path("beside")}, -1, OnCore(1));
    const Outcome measured = work_.Run({"bench", "kernels", job, "--output", kernels}, OnCore(0));
    EXPECT_EQ(measured.exit_code, 0) << measured.err;
    const Outcome simulated = work_.Run({"plan", "simulate", job, "--kernels", kernels});
    const std::vector<std::string> parts = absl::StrSplit(simulated.out, " ranks: ");
    double milliseconds = 0;
    EXPECT_TRUE(parts.size() > 1 && absl::SimpleAtod(parts[1].substr(0, parts[1].find(' ')), &milliseconds))
        << simulated.out << simulated.err;
    return milliseconds / 1e3;
  }
  // What is simulated of what is measured, in turns, each beside the simulations before and behind it: how fast a
  // virtual machine computes changes by a third within a minute. `mean`: of means of steps instead of medians.
  std::vector<double> SimulatedOfMeasured(int batch, int steps, const std::string& policy, bool mean) const {
    std::vector<double> ratios;
    double before = SimulatedSeconds(batch, policy);
    for (int turn = 0; turn < kTurns; ++turn) {
      const Ran ran = Train(steps, batch, policy);
      const double after = SimulatedSeconds(batch, policy);
      ratios.push_back((before + after) / 2 / (mean ? ran.seconds : ran.median));
      before = after;
    }
    return ratios;
  }
};

// Bytes are the plan's by the interfaces' counters, and the model learns as well.
TEST_F(CodedLinksTest, CodesSendWhatThePlanSaysAndTheModelLearnsAsWell) {
  constexpr int kSteps = 500, kFewSteps = 100, kBatch = 32;
  // `is_near`: the loss is within 1% of that of the exact steps before it in the list. What TOPK leaves for later steps
  // acts as momentum does, so under AdamW with as much momentum as usual its loss is not.
  const struct {
    const char* name;
    const char* policy;
    bool is_near = true;
    double beta1 = 0.9;
  } codes[] = {
      {"exact", ""},
      {"QUANT 4", "compress { family: QUANT default: 4 }"},
      {"POWERSGD 16", "compress { family: POWERSGD default: 16 warmup_steps: 100 }"},
      {"POWERSGD 4", "compress { family: POWERSGD default: 4 }", /*is_near=*/false},
      {"TOPK 1%", "compress { family: TOPK default: 0.01 }", /*is_near=*/false},
      {"exact", "", /*is_near=*/true, /*beta1=*/0.5},
      {"TOPK 10%", "compress { family: TOPK default: 0.1 warmup_steps: 100 }", /*is_near=*/true, /*beta1=*/0.5},
  };
  Ran exact;
  double powersgd = 0;
  for (const auto& [name, policy, is_near, beta1] : codes) {
    const Ran few = Train(kFewSteps, kBatch, policy, beta1), ran = Train(kSteps, kBatch, policy, beta1);
    const Planned planned = PlannedOf(Job(kSteps, kBatch, policy, beta1), {}, kHosts);
    const auto on_the_way = static_cast<double>(planned.with_headers);
    const double sent = static_cast<double>(ran.sent - few.sent) / (kSteps - kFewSteps);
    if (*policy == '\0') exact = ran;
    if (name == std::string("POWERSGD 4")) powersgd = ran.seconds;
    std::cout << absl::StrFormat(
                     "%-12s beta1 %.1f %7.1f ms a step, %4.2f x exact; sent %9.0f bytes a step, planned "
                     "%9.0f (%+.2f%%), %9d without headers; validation %.4f (%+.2f%%)",
                     name, beta1, 1e3 * ran.median, exact.median / ran.median, sent, on_the_way,
                     100 * (sent / on_the_way - 1), planned.payloads, ran.validation,
                     100 * (ran.validation / exact.validation - 1))
              << std::endl;
    EXPECT_NEAR(sent, on_the_way, 0.01 * on_the_way) << name;
    if (is_near) {
      EXPECT_LE(ran.validation, 1.01 * exact.validation) << name;
    }
  }
  if (const char* const python = std::getenv("ONEFLOW_PYTORCH"); python != nullptr) {
    const double plain = SecondsOfDdp(python, kPeer),
                 theirs = SecondsOfDdp(python, absl::StrCat(kPeer, " --powersgd 4"));
    std::cout << absl::StrFormat("DDP %.1f ms a step, with its PowerSGD %.1f: %.2f x ours", 1e3 * plain, 1e3 * theirs,
                                 theirs / powersgd)
              << std::endl;
    EXPECT_GE(theirs / powersgd, 1.2);
  }
}

// With one sample a step and host a mean takes as long as twenty steps and more.
TEST_F(CodedLinksTest, Co2HidesTheLinkAndLearnsMoreInTheSameTime) {
  constexpr int kBatch = 2, kExactSteps = 200;
  const auto late = [](int64_t tau) { return absl::StrCat("sync { co2 { tau: ", tau, " momentum: 0.2 } }"); };
  const Ran alone = Train(400, kBatch, late(1'000'000'000)), exact = Train(kExactSteps, kBatch, "");
  const double times = exact.seconds / alone.seconds - 1;
  const auto tau = 2 * static_cast<int64_t>(std::ceil(times));
  const Ran few = Train(400, kBatch, late(tau));
  const int steps = static_cast<int>(kExactSteps * exact.seconds / few.seconds);
  const Ran co2 = Train(steps, kBatch, late(tau));
  std::cout << absl::StrFormat(
                   "alone %.2f ms a step, exact %.1f, CO2 with tau %d %.2f: %.2f of alone, %.1f x exact; in %.0f s CO2 "
                   "takes %d steps to %.3f (validation %.3f), exact steps %d to %.3f (%.3f)",
                   1e3 * alone.seconds, 1e3 * exact.seconds, tau, 1e3 * co2.seconds, alone.seconds / co2.seconds,
                   exact.seconds / co2.seconds, kExactSteps * exact.seconds, steps, co2.loss, co2.validation,
                   kExactSteps, exact.loss, exact.validation)
            << std::endl;
  EXPECT_GE(alone.seconds / co2.seconds, 0.85);
  EXPECT_GE(exact.seconds / co2.seconds, 10);
  EXPECT_LE(co2.validation, exact.validation - 0.2);
}

// Steps take what `plan simulate` says of kernels that were measured on these cores.
TEST_F(CodedLinksTest, StepsTakeWhatIsSimulated) {
  const struct {
    const char* name;
    int batch, steps;
    const char* policy;
    bool mean = false;  // rounds beside steps let what they tell come in bursts
  } ways[] = {
      {"exact", 32, 20, ""},
      {"QUANT 4", 32, 30, "compress { family: QUANT default: 4 }"},
      {"POWERSGD 16", 32, 30, "compress { family: POWERSGD default: 16 }"},
      {"POWERSGD 4", 32, 30, "compress { family: POWERSGD default: 4 }"},
      {"TOPK 1%", 32, 30, "compress { family: TOPK default: 0.01 }"},
      {"exact, 2 samples", 2, 25, ""},
      {"CO2, 2 samples", 2, 500, "sync { co2 { tau: 50 momentum: 0.2 } }", /*mean=*/true},
  };
  for (const auto& [name, batch, steps, policy, mean] : ways) {
    std::vector<double> ratios = SimulatedOfMeasured(batch, steps, policy, mean);
    std::sort(ratios.begin(), ratios.end());
    const double ratio = Median(ratios);
    std::cout << absl::StrFormat("%-16s simulated / measured %.3f (%.3f to %.3f)", name, ratio, ratios.front(),
                                 ratios.back())
              << std::endl;
    EXPECT_NEAR(ratio, 1, kSimulated) << name;
  }
}

}  // namespace
}  // namespace oneflow::e2e
