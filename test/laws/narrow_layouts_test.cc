// The layout law of jobs that compute in 16 bits, on devices of the host.
#include <set>

#include "test/laws/layouts_law.h"
#include "test/support/names.h"
#include "test/support/weight_file.h"

namespace oneflow {
namespace {

// Of GPTs in 16 bits.
std::vector<std::vector<std::string>> LayoutsOfNarrowGpts() {
  return {{"mesh={dp:4}"},
          {"mesh={tp:4}"},
          {"mesh={dp:2 tp:2}"},
          {"mesh={pp:2 dp:2}", "train.micro_batches=4"},
          {"mesh={pp:2 dp:2 tp:2}", "train.micro_batches=2"},
          {"train.micro_batches=2"},
          {"mesh={dp:3 tp:2}"},
          {"mesh={dp:2}", "recompute={what: 'layers'}"},
          {"mesh={dp:4}", "cluster.variable_bytes_per_device=120000"},
          {"mesh={pp:2}", "train.micro_batches=4", "pipeline={schedule: 'zb-h1'}"},
          {"mesh={dp:2}"}};
}

// Sums are cut otherwise, so that some are rounded to the other neighbour.
class NarrowLayoutsTest : public testing::LayoutsLaw {
 protected:
  NarrowLayoutsTest() {
    first_bar_ = 2e-5;
    last_bar_ = 4e-4;
  }
  static std::string InBf16(const std::string& config) { return config + " precision { compute: BF16 }"; }
};

TEST_F(NarrowLayoutsTest, AGptTrainsAlikeUnderEveryLayout) { ExpectSameUnder(InBf16(Gpt()), LayoutsOfNarrowGpts()); }

// Each addend is rounded, which one device does not do.
TEST_F(NarrowLayoutsTest, AJobMayAskForRoundedAddends) {
  first_bar_ = 1e-4;
  last_bar_ = 2e-3;
  const std::string rounds = "precision.reduce=BF16", sums = "precision.accumulate=BF16",
                    four = "train.micro_batches=4";
  ExpectSameUnder(InBf16(Gpt()), {{"mesh={dp:2 tp:2}", rounds},
                                  {"mesh={pp:2 dp:2}", four, rounds},
                                  {"mesh={dp:4}", four, rounds, "zero={stage:2}"},
                                  {four, rounds, sums},
                                  {"mesh={pp:2 dp:2}", four, rounds, sums},
                                  {"mesh={dp:4}", four, rounds, sums, "zero={stage:3}"}});
}

// Between stages activations travel as 16 bits; addends as 32, unless a job asks for less.
TEST_F(NarrowLayoutsTest, LessTravels) {
  const auto bytes_moved = [&](const std::string& config,
                               std::vector<std::string> overrides) -> absl::StatusOr<int64_t> {
    OF_ASSIGN_OR_RETURN(const Outcome outcome, Run(config, overrides));
    return outcome.stats.bytes_moved;
  };
  for (const std::string mesh : {"mesh={dp:2 tp:2}", "mesh={pp:2 dp:2}"}) {
    SCOPED_TRACE(mesh);
    ASSERT_OK_AND_ASSIGN(const int64_t full, bytes_moved(Gpt(), {mesh}));
    ASSERT_OK_AND_ASSIGN(const int64_t narrow, bytes_moved(InBf16(Gpt()), {mesh}));
    ASSERT_OK_AND_ASSIGN(const int64_t rounded, bytes_moved(InBf16(Gpt()), {mesh, "precision.reduce=BF16"}));
    EXPECT_LE(narrow, full);
    EXPECT_LT(rounded, 0.6 * static_cast<double>(full));
  }
}

TEST_F(NarrowLayoutsTest, SavedWeightsAreTheMasters) {
  ASSERT_OK_AND_ASSIGN(const Outcome narrow, Run(InBf16(Gpt()), {"mesh={dp:2 tp:2}"}));
  ASSERT_OK_AND_ASSIGN(const Outcome full, Run(Gpt(), {}));
  EXPECT_EQ(narrow.initial_weights, full.initial_weights) << "bitwise, and so f32";
}

TEST_F(NarrowLayoutsTest, AConvNetTrainsAlikeUnderEveryLayout) {
  ExpectSameUnder(InBf16(ConvNet()),
                  {{"mesh={dp:4}"}, {"mesh={tp:4}"}, {"mesh={pp:2 dp:2}", "train.micro_batches=2"}, {"mesh={dp:3}"}});
}

TEST_F(NarrowLayoutsTest, TablesAndClassesMayBeSplit) {
  ExpectSameUnder(InBf16(WideDeep()),
                  {{"mesh={tp:4}"}, {"mesh={dp:2 tp:2}"}, {"mesh={tp:3}", "model.wide_deep.table_split=\"columns\""}});
  ExpectSameUnder(InBf16(MarginClassifier()), {{"mesh={tp:4}"}, {"mesh={dp:2 tp:2}"}, {"mesh={dp:2}"}});
}

class HalfLayoutsTest : public NarrowLayoutsTest {
 protected:
  static std::string InF16(const std::string& config, const std::string& more = "") {
    return config + " precision { compute: F16 " + more + " }";
  }
  // A GPT that reads the same sample again and again, so that a step differs from the one before by the weights alone.
  std::string Repeating() {
    return "model { gpt { vocabulary: 128 layers: 2 width: 24 heads: 4 context: 12 } } data { text { path: '" +
           dir_.Write("one", "abcdefghijklm") +
           "' validation_fraction: 0 } } train { batch_size: 8 optimizer { adamw { weight_decay: 0.1 } clip_norm: 1 } "
           "schedule { learning_rate: 3e-3 warmup_steps: 3 } }";
  }
  const std::vector<std::vector<std::string>> some_layouts_ = {
      {},
      {"train.micro_batches=2"},
      {"mesh={dp:2 tp:2}"},
      {"mesh={pp:2}", "train.micro_batches=4"},
      {"mesh={pp:2 dp:2}", "train.micro_batches=2", "pipeline={schedule: '1f1b'}"},
      {"mesh={dp:4}", "cluster.variable_bytes_per_device=120000"},
  };
  // Sums that are f16 overflow earlier.
  std::vector<std::vector<std::string>> AlsoRounded() const {
    std::vector<std::vector<std::string>> layouts = some_layouts_;
    layouts.push_back({"mesh={dp:2}", "precision.reduce=F16"});
    return layouts;
  }
};

TEST_F(HalfLayoutsTest, AGptTrainsAlikeUnderEveryLayout) { ExpectSameUnder(InF16(Gpt()), LayoutsOfNarrowGpts()); }

// Few samples, and pools whose neighbours are all but equal: what is rounded otherwise grows, to 8e-4 at step 18.
TEST_F(HalfLayoutsTest, AConvNetTrainsAlikeUnderEveryLayout) {
  steps_ = 10;
  last_bar_ = 2e-3;
  ExpectSameUnder(InF16(ConvNet()), {{"mesh={dp:4}"}, {"mesh={tp:4}"}, {"mesh={pp:2 dp:2}", "train.micro_batches=2"}});
}

TEST_F(HalfLayoutsTest, TablesAndClassesMayBeSplit) {
  ExpectSameUnder(InF16(WideDeep()), {{"mesh={tp:4}"}, {"mesh={dp:2 tp:2}"}});
  ExpectSameUnder(InF16(MarginClassifier()), {{"mesh={tp:4}"}, {"mesh={dp:2 tp:2}"}});
}

// The scale is too large at first, and again whenever three steps went well: everybody skips the same steps.
TEST_F(HalfLayoutsTest, AllRanksSkipTheStepsWhoseGradientsOverflow) {
  const std::string config = InF16(Gpt(), "initial_scale: 268435456 growth_interval: 3");
  ASSERT_OK_AND_ASSIGN(const Outcome whole, Run(config, {}));
  const std::vector<double>& scales = whole.fetched.at("loss_scale");
  const std::vector<double>& skipped = whole.fetched.at("skipped");
  EXPECT_EQ(scales[0], 0x1p28);
  int good = 0;
  for (int step = 0; step + 1 < steps_; ++step) {
    good = skipped[step] != 0 ? 0 : good + 1;
    const double factor = skipped[step] != 0 ? 0.5 : good == 3 ? 2 : 1;
    EXPECT_EQ(scales[step + 1], scales[step] * factor) << "step " << step + 1;
    EXPECT_EQ(skipped[step] != 0, !std::isfinite(whole.fetched.at("grad_norm")[step])) << "step " << step + 1;
    if (good == 3) good = 0;
  }
  EXPECT_EQ(skipped.front(), 1);
  const auto first_good = std::find(skipped.begin(), skipped.end(), 0);
  EXPECT_NE(std::find(first_good, skipped.end(), 1), skipped.end()) << "it never became too large again";
  EXPECT_LT(whole.losses.back(), whole.losses.front());
  for (const std::vector<std::string>& layout : some_layouts_) {
    SCOPED_TRACE(absl::StrJoin(layout, " "));
    ASSERT_OK_AND_ASSIGN(const Outcome parts, Run(config, layout));
    EXPECT_EQ(parts.fetched.at("loss_scale"), scales);
    EXPECT_EQ(parts.fetched.at("skipped"), skipped);
    EXPECT_EQ(parts.fetched.at("lr"), whole.fetched.at("lr"));
  }
}

// A job that begins with a scale that is too large does, behind the steps that it skips, bit by bit what one does that
// begins with the right scale: weights, moments and the optimizer's count of steps were not touched.
TEST_F(HalfLayoutsTest, ASkippedStepChangesNothingButTheScale) {
  for (const std::vector<std::string>& layout : AlsoRounded()) {
    SCOPED_TRACE(absl::StrJoin(layout, " "));
    ASSERT_OK_AND_ASSIGN(const Outcome late, Run(InF16(Repeating(), "initial_scale: 268435456"), layout));
    const std::vector<double>& skipped = late.fetched.at("skipped");
    const auto count = static_cast<size_t>(std::find(skipped.begin(), skipped.end(), 0) - skipped.begin());
    ASSERT_GE(count, 2u);
    ASSERT_LE(count, skipped.size() - 5);
    const double scale = late.fetched.at("loss_scale")[count];
    EXPECT_EQ(scale, std::ldexp(0x1p28, -static_cast<int>(count)));
    ASSERT_OK_AND_ASSIGN(const Outcome right,
                         Run(InF16(Repeating(), absl::StrCat("initial_scale: ", static_cast<int64_t>(scale))), layout));
    for (const char* name : {"loss", "lr", "grad_norm", "loss_scale", "skipped"}) {
      const std::vector<double>&behind = late.fetched.at(name), &alone = right.fetched.at(name);
      EXPECT_EQ(std::vector<double>(behind.begin() + count, behind.end()),
                std::vector<double>(alone.begin(), alone.end() - count))
          << name;
    }
    for (size_t step = 0; step < count; ++step) EXPECT_EQ(late.losses[step], late.losses[count]) << "step " << step + 1;
  }
}

// Saved are the masters, which a skipped step leaves as they were.
TEST_F(HalfLayoutsTest, WeightsOfAJobThatSkipsAllStepsAreTheInitialOnes) {
  steps_ = 3;
  for (const std::vector<std::string>& layout : AlsoRounded()) {
    std::vector<std::string> overrides = layout;
    SCOPED_TRACE(absl::StrJoin(layout, " "));
    overrides.push_back("save_weights=" + dir_.File("final"));
    ASSERT_OK_AND_ASSIGN(const Outcome outcome, Run(InF16(Gpt(), "initial_scale: 1e30"), overrides));
    EXPECT_EQ(outcome.fetched.at("skipped"), std::vector<double>(3, 1));
    ASSERT_OK_AND_ASSIGN(const testing::WeightFile file, testing::ReadWeightFile(dir_.File("final")));
    EXPECT_EQ(file.tensors.size(), outcome.initial_weights.size());
    for (const auto& [name, entry] : file.tensors) {
      EXPECT_EQ(outcome.initial_weights.at(name), std::string(entry.bytes.begin(), entry.bytes.end())) << name;
    }
  }
}

}  // namespace
}  // namespace oneflow
