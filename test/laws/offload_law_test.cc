// The law of tiers: where a variable lies while nothing computes with it changes no bit of any loss, whatever the tier,
// however it is cut into units, and however many are loaded ahead. Devices need the less memory.
#include <algorithm>

#include "gmock/gmock.h"
#include "oneflow_core/optimizer_rules.h"
#include "test/laws/layouts_law.h"

namespace oneflow {
namespace {

class OffloadLawTest : public testing::LayoutsLaw {
 protected:
  OffloadLawTest() { steps_ = 5; }

  std::string TieredGpt(const std::string& optimizer) const {
    return absl::StrCat(
        "model { gpt { vocabulary: 128 layers: 3 width: 64 heads: 4 context: 12 dropout: 0.1 } } data { ",
        "text { path: '", text_, "' } } train { batch_size: 8 optimizer { ", optimizer,
        " } schedule { learning_rate: 3e-3 } }");
  }

  // Expects the losses of the job without offload, to the bit, under all of `offloads`, each beside `others`.
  void ExpectSameBitsFrom(const std::string& config, const std::vector<std::string>& others,
                          const std::vector<std::string>& offloads) {
    ASSERT_OK_AND_ASSIGN(const testing::Outcome plain, Run(config, others));
    ASSERT_LT(plain.losses.back(), plain.losses.front()) << "the model learns nothing, so equality would say nothing";
    for (const std::string& offload : offloads) {
      std::vector<std::string> overrides = others;
      overrides.push_back(offload);
      SCOPED_TRACE(absl::StrJoin(overrides, " "));
      ASSERT_OK_AND_ASSIGN(const testing::Outcome outcome, Run(config, overrides));
      EXPECT_EQ(outcome.losses, plain.losses) << "bitwise";
      EXPECT_EQ(outcome.stats.register_bytes, outcome.planned_bytes);
      EXPECT_GT(outcome.tier_bytes, 0);
      EXPECT_EQ(outcome.stats.scratch_bytes, 0) << "nothing asks for more than the plan has";
    }
  }
};

constexpr char kAdamw[] = "adamw { weight_decay: 0.1 }";

const std::vector<std::string> kOffloads = {
    "offload={what:OPTIMIZER tier:DISK}",
    "offload={what:OPTIMIZER tier:HOST least_kb:0 unit_mb:0.05}",
    "offload={what:OPTIMIZER tier:DISK least_kb:0 unit_mb:0.03 prefetch:0}",
    "offload={what:OPTIMIZER tier:DISK least_kb:0 unit_mb:0.01 prefetch:20}",
    "offload={what:WEIGHTS tier:DISK least_kb:1 unit_mb:0.05}",
    "offload=[{what:OPTIMIZER tier:DISK least_kb:0 unit_mb:0.1 prefetch:3}, {what:WEIGHTS tier:HOST least_kb:0 "
    "unit_mb:0.02 prefetch:0}]",
    "offload={what:ACTIVATIONS tier:DISK least_kb:0 unit_mb:0.01 prefetch:0}",
    "offload=[{what:ACTIVATIONS tier:HOST least_kb:1 unit_mb:0.005}, {what:WEIGHTS tier:DISK unit_mb:0.02}, "
    "{what:OPTIMIZER tier:DISK least_kb:0 unit_mb:0.02}]",
};

TEST_F(OffloadLawTest, LossesStayTheSame) {
  ExpectSameBitsFrom(TieredGpt(kAdamw), {}, kOffloads);
  ExpectSameBitsFrom(TieredGpt(absl::StrCat(kAdamw, " clip_norm: 0.5")), {"mesh={dp:2}"}, kOffloads);
}

TEST_F(OffloadLawTest, GradientsToo) {
  const std::vector<std::string> offloads = {
      "offload=[{what:GRADIENTS tier:DISK least_kb:0 unit_mb:0.02}, {what:OPTIMIZER tier:HOST least_kb:0 unit_mb:0.1}]",
      "offload=[{what:OPTIMIZER tier:DISK}, {what:GRADIENTS tier:HOST least_kb:1 unit_mb:0.1 prefetch:0}]",
      "offload=[{what:GRADIENTS tier:HOST least_kb:0 unit_mb:0.01}, {what:OPTIMIZER tier:DISK least_kb:0 "
      "unit_mb:0.05}, "
      "{what:WEIGHTS tier:DISK unit_mb:0.02}, {what:ACTIVATIONS tier:DISK least_kb:0 unit_mb:0.01}]"};
  for (const char* const optimizer : {"adamw { weight_decay: 0.1 } clip_norm: 0.5", "lamb {} clip_norm: 1"}) {
    for (const std::string mesh : {"mesh={dp:1}", "mesh={dp:2}", "mesh={pp:2 tp:2}"}) {
      ExpectSameBitsFrom(TieredGpt(optimizer), {mesh}, offloads);
    }
    ExpectSameBitsFrom(TieredGpt(optimizer), {"mesh={dp:2}", "zero={stage:2}"}, offloads);
    ExpectSameBitsFrom(TieredGpt(optimizer), {"mesh={dp:2}", "zero={stage:3 bucket_mb:0.05}"}, offloads);
  }
  ExpectSameBitsFrom(TieredGpt(kAdamw), {"precision.compute=F16"}, offloads);
}

TEST_F(OffloadLawTest, BesideOtherAxesAndOptions) {
  ExpectSameBitsFrom(TieredGpt(kAdamw), {"mesh={dp:2}", "zero={stage:3 bucket_mb:0.05}", "train.micro_batches=2"},
                     kOffloads);
  ExpectSameBitsFrom(TieredGpt(kAdamw), {"mesh={pp:2 tp:2}", "train.micro_batches=2", "recompute.what=layers"},
                     kOffloads);
  ExpectSameBitsFrom(TieredGpt(kAdamw), {"precision.compute=F16", "train.average.decay=0.9"}, kOffloads);
}

TEST_F(OffloadLawTest, BesideEdgesWithAPolicy) {
  ExpectSameBitsFrom(TieredGpt(kAdamw), {"mesh={dp:2}", "sync={axis:'dp' co2 {tau:2 delay:0}}"},
                     {kOffloads[2], kOffloads[4]});
  ExpectSameBitsFrom(TieredGpt(kAdamw), {"mesh={dp:2}", "compress={axis:'dp' family:POWERSGD default:4}"},
                     {kOffloads[2], kOffloads[4], kOffloads[6]});
}

TEST_F(OffloadLawTest, OfEveryKindOfOptimizer) {
  int tried = 0;
  for (const OptimizerRule& rule : OptimizerRules()) {
    if (rule.point != nullptr || rule.half != nullptr) continue;  // for games
    ExpectSameBitsFrom(TieredGpt(absl::StrCat(rule.name, " {}")), {"mesh={dp:2}", "zero={stage:1}"},
                       {kOffloads[2], kOffloads[4]});
    ++tried;
  }
  EXPECT_GE(tried, 5);
}

}  // namespace
}  // namespace oneflow
