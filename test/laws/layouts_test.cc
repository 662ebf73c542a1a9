// The layout law on devices of the host.
#include <set>

#include "oneflow_core/models/gpt.h"
#include "test/laws/layouts_law.h"
#include "test/support/weight_file.h"

namespace oneflow {
namespace {

using ::oneflow::testing::Outcome;

class LayoutsTest : public testing::LayoutsLaw {
 protected:
  static constexpr int kSteps = 20;
};

// The embedding on the first stage and the head on the last share one matrix. It goes there once per step, and its
// gradient comes back once: not with every micro-batch.
TEST_F(LayoutsTest, TheGradientOfATiedWeightTravelsOncePerStep) {
  const auto gpt = [&](bool tied) {
    return "model { gpt { vocabulary: 512 layers: 2 width: 24 heads: 4 context: 12 tied_embedding: " +
           std::string(tied ? "true" : "false") + " } } data { text { path: '" + text_ +
           "' } } train { batch_size: 16 optimizer { adamw {} } schedule { learning_rate: 3e-3 } }";
  };
  const auto bytes_moved = [&](bool tied, int micro_batches) -> absl::StatusOr<int64_t> {
    OF_ASSIGN_OR_RETURN(const Outcome outcome,
                        Run(gpt(tied), {"mesh={pp:2 dp:2}", absl::StrCat("train.micro_batches=", micro_batches)}));
    return outcome.stats.bytes_moved / kSteps;
  };
  constexpr int64_t kTable = 512 * 24 * 4;
  ASSERT_OK_AND_ASSIGN(const int64_t tied4, bytes_moved(true, 4));
  ASSERT_OK_AND_ASSIGN(const int64_t tied8, bytes_moved(true, 8));
  ASSERT_OK_AND_ASSIGN(const int64_t untied8, bytes_moved(false, 8));
  EXPECT_LT(tied8 - tied4, kTable / 8) << "the samples are the same, the table does not move more often";
  // Beyond what the two separate matrices move: the table to both ranks of the last stage, its gradient from them.
  EXPECT_LE(tied8 - untied8, 4 * kTable);
  ExpectSameUnder(gpt(true), {{"mesh={pp:2 dp:2}", "train.micro_batches=4"}, {"mesh={pp:2}"}});
}

TEST_F(LayoutsTest, AGptTrainsAlikeUnderEveryLayout) {
  ExpectSameUnder(Gpt(), {{"mesh={dp:4}"},
                          {"mesh={tp:4}"},
                          {"mesh={dp:2 tp:2}"},
                          {"mesh={pp:2 dp:2}"},
                          {"mesh={pp:2 dp:2}", "train.micro_batches=4"},
                          {"mesh={pp:4}", "train.micro_batches=8"},
                          {"mesh={pp:2 dp:2 tp:2}", "train.micro_batches=2"},
                          {"train.micro_batches=2"},
                          {"mesh={dp:3}"},
                          {"mesh={tp:3}"},
                          {"mesh={dp:3 tp:2}"},
                          {"mesh={pp:3 tp:2}", "train.micro_batches=2"}});
}

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
class NarrowLayoutsTest : public LayoutsTest {
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
  ExpectSameUnder(InBf16(Gpt()), {{"mesh={dp:2 tp:2}", "precision.reduce=BF16"},
                                  {"mesh={pp:2 dp:2}", "train.micro_batches=4", "precision.reduce=BF16"}});
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

// As Megatron-LM lays it out: every tensor between layers is asked to lie somewhere, scores are kept, layers know their
// stages; in bf16 the addends of ranks are too.
TEST_F(LayoutsTest, AGptThatLeavesNothingToTheCompilerTrainsAlike) {
  const auto losses = [&](GptConfig gpt, const std::string& rest, bool whole) -> absl::StatusOr<std::vector<double>> {
    OF_ASSIGN_OR_RETURN(
        SourcedConfig config,
        ParseConfig(absl::StrCat("data { text { path: '", text_,
                                 "' } } train { steps: 4 batch_size: 8 micro_batches: 2 optimizer { adamw "
                                 "{} clip_norm: 1 } schedule { learning_rate: 3e-3 } } ",
                                 rest),
                    "law"));
    OF_ASSIGN_OR_RETURN(Program program, GptProgram(gpt, {.path = text_}, {.train = 4}, std::nullopt, ops_));
    OF_ASSIGN_OR_RETURN(Job job, MakeJob(std::move(config), std::move(program)));
    job.options.recompute.whole = whole;
    OF_ASSIGN_OR_RETURN(pb::PlanSet plan, CompileJob(job, ops_));
    std::vector<double> values;
    OF_RETURN_IF_ERROR(RunInPlace(job.spec, std::move(plan), [&](const pb::JobEvent& event) {
                         if (event.fetched().name() == "loss") values.push_back(event.fetched().values(0));
                       }).status());
    return values;
  };
  const GptConfig plain{.vocabulary = 128, .layers = 2, .width = 24, .heads = 4, .context = 12};
  ASSERT_OK_AND_ASSIGN(const std::vector<double> expected, losses(plain, "", false));
  ASSERT_EQ(expected.size(), 4u);
  GptConfig scores = plain;
  scores.kept_scores = DType::kFloat32;
  GptConfig whole = scores, sequence = scores, narrow = scores, in_16_bits = scores;
  in_16_bits.kept_scores = DType::kBFloat16;
  whole.stream = Sbp::Broadcast();
  sequence.stream = narrow.stream = Sbp::Split(1);
  GptConfig staged = whole;
  staged.stages = {0, 1};
  const struct {
    GptConfig gpt;
    const char* rest;
    double tolerance;
  } kCases[] = {
      {scores, "", 1e-5},
      {whole, "mesh { tp: 2 } recompute { what: 'layers' }", 1e-5},
      {sequence, "mesh { tp: 2 } recompute { what: 'attention' gathers: true }", 1e-5},
      {staged, "mesh { pp: 2 tp: 2 }", 1e-5},
      {narrow, "mesh { tp: 2 } precision { compute: BF16 reduce: BF16 }", 0.02},
      {in_16_bits, "mesh { tp: 2 } precision { compute: BF16 }", 0.02},
      {in_16_bits, "mesh { dp: 2 }", 0.02},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.rest);
    ASSERT_OK_AND_ASSIGN(const std::vector<double> actual, losses(c.gpt, c.rest, /*whole=*/true));
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(actual[i], expected[i], c.tolerance * expected[i]);
  }
}

TEST_F(LayoutsTest, AConvNetTrainsAlikeUnderEveryLayout) {
  ExpectSameUnder(ConvNet(), {{"mesh={dp:4}"},
                              {"mesh={tp:4}"},
                              {"mesh={dp:2 tp:2}"},
                              {"mesh={pp:2 dp:2}", "train.micro_batches=2"},
                              {"mesh={pp:4}"},
                              {"mesh={dp:3}"}});
}

TEST_F(LayoutsTest, ClassesMayBeSplitOverDevices) {
  ExpectSameUnder(MarginClassifier(), {{"mesh={tp:4}"},
                                       {"mesh={tp:3}"},
                                       {"mesh={dp:2 tp:2}"},
                                       {"mesh={dp:3 tp:2}"},
                                       {"mesh={dp:2}"},
                                       {"mesh={pp:2 tp:2}", "train.micro_batches=2"}});
}

// Of a row of logits only its maximum, its sum and its label's logit travel. Over tp alone, 40,000 more classes move
// not one byte more; where there is dp too, the class vectors themselves travel over it, but nothing that grows with
// rows times classes.
TEST_F(LayoutsTest, TheLossOverSplitClassesMovesBytesByTheRowOnly) {
  const auto bytes_moved = [&](const std::string& mesh, int classes, int batch) -> absl::StatusOr<int64_t> {
    OF_ASSIGN_OR_RETURN(const Outcome outcome,
                        Run(MarginClassifier(), {mesh, absl::StrCat("data.prototypes.classes=", classes),
                                                 absl::StrCat("train.batch_size=", batch)}));
    return outcome.stats.bytes_moved;
  };
  for (const std::string mesh : {"mesh={tp:4}", "mesh={dp:2 tp:2}"}) {
    SCOPED_TRACE(mesh);
    ASSERT_OK_AND_ASSIGN(const int64_t few, bytes_moved(mesh, 40000, 8));
    ASSERT_OK_AND_ASSIGN(const int64_t many, bytes_moved(mesh, 80000, 8));
    ASSERT_OK_AND_ASSIGN(const int64_t few_more_rows, bytes_moved(mesh, 40000, 12));
    ASSERT_OK_AND_ASSIGN(const int64_t many_more_rows, bytes_moved(mesh, 80000, 12));
    EXPECT_EQ(many_more_rows - few_more_rows, many - few);
    EXPECT_GT(few_more_rows, few);
    if (mesh == "mesh={tp:4}") {
      EXPECT_EQ(many, few);
    }
  }
}

TEST_F(LayoutsTest, TablesMayBeSplitByRowsOrByColumns) {
  ExpectSameUnder(WideDeep(), {{"mesh={tp:4}"},
                               {"mesh={tp:3}"},
                               {"mesh={tp:4}", "model.wide_deep.table_split=columns"},
                               {"mesh={tp:3}", "model.wide_deep.table_split=columns"},
                               {"mesh={dp:2 tp:2}"},
                               {"mesh={dp:2 tp:2}", "model.wide_deep.table_split=columns"},
                               {"mesh={dp:4}", "model.wide_deep.table_split=none"}});
}

TEST_F(LayoutsTest, SplitTablesTakeLessMemoryThanCopies) {
  const std::string large = "data.clicks.vocabulary=40000";
  ASSERT_OK_AND_ASSIGN(const Outcome copies,
                       Run(WideDeep(), {large, "mesh={dp:4}", "model.wide_deep.table_split=none"}));
  for (const char* split : {"rows", "columns"}) {
    ASSERT_OK_AND_ASSIGN(const Outcome parts,
                         Run(WideDeep(), {large, "mesh={tp:4}", std::string("model.wide_deep.table_split=") + split}));
    EXPECT_LT(parts.planned_bytes, 0.4 * copies.planned_bytes) << split;
    for (int step = 0; step < kSteps; ++step) {
      ASSERT_NEAR(parts.losses[step] / copies.losses[step], 1, 1e-4) << split << ", step " << step + 1;
    }
  }
}

// Nobody splits the tables, and along tp they are asked to be copies; along dp they are too large for that.
TEST_F(LayoutsTest, AMemoryLimitSplitsWhatDoesNotFit) {
  const std::vector<std::string> copied = {"data.clicks.vocabulary=40000", "model.wide_deep.table_split=none"};
  ASSERT_OK_AND_ASSIGN(const Outcome whole, Run(WideDeep(), {copied[0], copied[1]}));
  for (const char* mesh : {"mesh={dp:4}", "mesh={dp:2 tp:2}"}) {
    SCOPED_TRACE(mesh);
    ASSERT_OK_AND_ASSIGN(const Outcome copies, Run(WideDeep(), {copied[0], copied[1], mesh}));
    // A table of 40,000 x 6 and one of 40,000, with two states each, are 3.4 MB.
    ASSERT_OK_AND_ASSIGN(const Outcome parts,
                         Run(WideDeep(), {copied[0], copied[1], mesh, "cluster.variable_bytes_per_device=2000000"}));
    EXPECT_LT(parts.planned_bytes, copies.planned_bytes);
    EXPECT_EQ(parts.stats.register_bytes, parts.planned_bytes);
    for (int step = 0; step < kSteps; ++step) {
      ASSERT_NEAR(parts.losses[step] / whole.losses[step], 1, 1e-4) << "step " << step + 1;
    }
  }
}

TEST_F(LayoutsTest, ATiedEmbeddingIsTheSameOnTwoStages) {
  const std::string tied = "model.gpt.tied_embedding=true";
  ASSERT_OK_AND_ASSIGN(const Outcome whole, Run(Gpt(), {tied}));
  for (const char* mesh : {"mesh={pp:2}", "mesh={pp:2 tp:2}", "mesh={dp:2 tp:2}"}) {
    SCOPED_TRACE(mesh);
    ASSERT_OK_AND_ASSIGN(const Outcome parts, Run(Gpt(), {tied, mesh, "train.micro_batches=2"}));
    for (int step = 0; step < kSteps; ++step)
      ASSERT_NEAR(parts.losses[step] / whole.losses[step], 1, 1e-4) << "step " << step + 1;
  }
}

TEST_F(LayoutsTest, SizesAndMeshesThatNobodyChoseHoldToo) {
  const uint32_t seed = 20240601;
  std::mt19937 random(seed);
  for (int i = 0; i < 6; ++i) {
    const auto pick = [&](int least, int most) {
      return std::to_string(least + static_cast<int>(random() % (most - least + 1)));
    };
    const std::vector<std::string> sizes = {"model.mlp.widths=[" + pick(1, 40) + "," + pick(3, 40) + "]",
                                            "train.batch_size=" + pick(1, 9)};
    ASSERT_OK_AND_ASSIGN(const Outcome whole, Run(Mlp(), sizes));
    std::vector<std::string> layout = sizes;
    layout.push_back("mesh={pp:" + pick(1, 2) + " dp:" + pick(1, 3) + " tp:" + pick(1, 3) + "}");
    SCOPED_TRACE(::testing::PrintToString(layout) + " seed " + std::to_string(seed));
    ASSERT_OK_AND_ASSIGN(const Outcome parts, Run(Mlp(), layout));
    for (int step = 0; step < kSteps; ++step)
      ASSERT_NEAR(parts.losses[step] / whole.losses[step], 1, 1e-4) << "step " << step + 1;
  }
}

// Annotations hold even where they leave ranks without a single column or sample.
TEST_F(LayoutsTest, LayersNarrowerThanTheirMeshTrainToo) {
  const std::vector<std::string> sizes = {"model.mlp.widths=[1,2]", "train.batch_size=2"};
  ASSERT_OK_AND_ASSIGN(const Outcome whole, Run(Mlp(), sizes));
  for (const char* mesh : {"mesh={tp:2}", "mesh={tp:3}", "mesh={dp:3}", "mesh={dp:3 tp:3}"}) {
    SCOPED_TRACE(mesh);
    ASSERT_OK_AND_ASSIGN(const Outcome parts, Run(Mlp(), {sizes[0], sizes[1], mesh}));
    for (int step = 0; step < kSteps; ++step)
      ASSERT_NEAR(parts.losses[step] / whole.losses[step], 1, 1e-4) << "step " << step + 1;
  }
}

// What has no copies that differ runs as without the comparison, in every bit.
TEST_F(LayoutsTest, CopiesAreEqualUnderEveryLayout) {
  for (const std::string& config : {Gpt(), ConvNet(), MarginClassifier(), WideDeep()}) {
    for (const char* mesh : {"mesh={dp:2 tp:2}", "mesh={tp:3}", "mesh={pp:2 dp:2}", "mesh={dp:2 tp:2 pp:2}"}) {
      SCOPED_TRACE(config.substr(0, 40) + mesh);
      ASSERT_OK_AND_ASSIGN(const Outcome plain, Run(config, {mesh, "train.micro_batches=2"}));
      ASSERT_OK_AND_ASSIGN(const Outcome checked, Run(config, {mesh, "train.micro_batches=2", "check_replicas=true"}));
      EXPECT_EQ(plain.losses, checked.losses);
      EXPECT_GT(checked.stats.bytes_moved, plain.stats.bytes_moved);
    }
  }
}

// One rank computes something else: the error names that node, although everything after it differs too.
TEST_F(LayoutsTest, TheNodeWhoseCopiesDifferIsNamed) {
  ASSERT_OK_AND_ASSIGN(SourcedConfig sourced, ParseConfig(Mlp(), "law"));
  for (const char* one : {"train.steps=3", "mesh={tp:2}", "check_replicas=true"})
    ASSERT_OK(ApplyOverride(one, sourced));
  ASSERT_OK_AND_ASSIGN(Job job, MakeJob(std::move(sourced), JobKind::kTrain, ops_));
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet plan, CompileJob(job, ops_));
  pb::Program program = testing::SpelledOut(plan);
  std::string changed;
  for (pb::Plan& one : *program.mutable_plans()) {
    for (pb::Actor& actor : *one.mutable_actors()) {
      for (pb::Instruction& instruction : *actor.mutable_instructions()) {
        if (actor.rank() != 1 || instruction.op() != "scale" || !changed.empty()) continue;
        for (pb::Attribute& attribute : *instruction.mutable_attributes()) {
          if (attribute.name() == "alpha") attribute.set_f(attribute.f() * 1.5);
        }
        changed = instruction.node();
      }
    }
  }
  ASSERT_NE(changed, "") << "no scale on rank 1";
  EXPECT_THAT(RunInPlace(job.spec, std::move(program), [](const pb::JobEvent&) {}).status(),
              testing::StatusIs(absl::StatusCode::kInternal,
                                ::testing::AllOf(::testing::HasSubstr(changed + "/replicas"),
                                                 ::testing::HasSubstr("copies of this tensor differ"))));
}

TEST_F(LayoutsTest, TwoRunsAreBitwiseEqual) {
  const std::vector<std::string> layout = {"mesh={pp:2 dp:2 tp:2}", "train.micro_batches=2"};
  ASSERT_OK_AND_ASSIGN(const Outcome first, Run(Gpt(), layout));
  ASSERT_OK_AND_ASSIGN(const Outcome second, Run(Gpt(), layout));
  EXPECT_EQ(first.losses, second.losses);
}

TEST_F(LayoutsTest, DropoutIsDrawnAnewEveryStep) {
  ASSERT_OK_AND_ASSIGN(const Outcome dropped, Run(Gpt(), {"train.schedule.learning_rate=1e-12"}));
  ASSERT_OK_AND_ASSIGN(const Outcome whole, Run(Gpt(), {"train.schedule.learning_rate=1e-12", "model.gpt.dropout=0"}));
  EXPECT_NE(dropped.losses, whole.losses);
}

// A convnet whose values lie in blocks of channels on one device, and on many where a rank has whole blocks: of one
// sample at a time "tp" halves those of the first convolution, or rows are what is convolved.
class ChannelBlocksTest : public LayoutsTest {
 protected:
  std::string Blocks() const {
    return "model { convnet { channels: [16, 32] hidden: 20 } } data { images { train_images: '" + images_ +
           "' train_labels: '" + labels_ +
           "' } } train { batch_size: 8 optimizer { sgd { momentum: 0.9 } } schedule { learning_rate: 0.02 } }";
  }

  // The values of "train" that lie in blocks.
  absl::StatusOr<int> NumInBlocks(const std::vector<std::string>& overrides) {
    OF_ASSIGN_OR_RETURN(SourcedConfig sourced, ParseConfig(Blocks(), "law"));
    for (const std::string& one : overrides) OF_RETURN_IF_ERROR(ApplyOverride(one, sourced));
    OF_ASSIGN_OR_RETURN(Job job, MakeJob(std::move(sourced), JobKind::kTrain, ops_));
    OF_ASSIGN_OR_RETURN(const pb::PlanSet plan, CompileJob(job, ops_));
    int count = 0;
    for (const pb::ClassTensor& tensor : plan.tensors()) count += tensor.layout() != 0;
    return count;
  }

  const std::vector<std::vector<std::string>> layouts_ = {{"mesh={dp:2}"},
                                                          {"mesh={tp:2}"},
                                                          {"mesh={tp:3}"},
                                                          {"mesh={tp:2}", "train.micro_batches=8"},
                                                          {"mesh={dp:2 tp:2}"},
                                                          {"mesh={pp:2}", "train.micro_batches=2"},
                                                          {"mesh={pp:2 dp:2}", "train.micro_batches=2"},
                                                          {"train.micro_batches=4", "recompute.what=layers"}};
};

TEST_F(ChannelBlocksTest, LossesAreTheSameHoweverValuesLieInMemory) {
  std::set<int> counts = {*NumInBlocks({})};
  EXPECT_GT(*counts.begin(), 0);
  for (const std::vector<std::string>& layout : layouts_) counts.insert(*NumInBlocks(layout));
  EXPECT_GT(counts.size(), 1) << "not the same values lie in blocks everywhere";
  ExpectSameUnder(Blocks(), layouts_);
}

TEST_F(ChannelBlocksTest, AndInSixteenBits) {
  first_bar_ = 2e-3, last_bar_ = 2e-2;
  ExpectSameUnder(Blocks() + " precision { compute: BF16 }", layouts_);
}

}  // namespace
}  // namespace oneflow
