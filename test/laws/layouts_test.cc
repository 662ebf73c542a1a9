// The layout law on devices of the host.
#include <set>

#include "oneflow_core/models/gpt.h"
#include "proto/plan.pb.h"
#include "test/laws/layouts_law.h"
#include "test/support/names.h"
#include "test/support/weight_file.h"

namespace oneflow {
namespace {

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
    OF_ASSIGN_OR_RETURN(pb::Program of_job, CompileToProgram(job, ops_));
    std::vector<double> values;
    OF_RETURN_IF_ERROR(RunInPlace(job.spec, std::move(of_job), [&](const pb::JobEvent& event) {
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
  ASSERT_OK_AND_ASSIGN(pb::Program program, CompileToProgram(job, ops_));
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
