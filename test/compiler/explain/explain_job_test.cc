#include "compiler/explain/explain.h"
#include "compiler/explain/html.h"
#include "oneflow_core/models/convnet.h"
#include "oneflow_core/models/gpt.h"
#include "test/compiler/explain/example.h"
#include "test/support/golden.h"
#include "test/support/names.h"

namespace oneflow::testing {
namespace {

TEST(ExplainJobTest, SaysWhatAStepCostsAndWhatMoves) { EXPECT_GOLDEN("explain/job.txt", ExplainJob(ExampleFacts())); }

TEST(ExplainJobTest, LayersThatAreAlikeAreOneEntry) {
  const GptConfig config{.vocabulary = 64, .layers = 3, .width = 32, .heads = 4, .context = 16};
  const Program program = *GptProgram(config, {.path = "text"}, {.train = 8}, std::nullopt, Ops());
  ASSERT_OK_AND_ASSIGN(const JobFacts job, FactsOf(program, Options({{"dp", 2}, {"tp", 2}})));
  const std::string text = ExplainJob(job);
  EXPECT_THAT(text, AllOf(HasSubstr("h*/mlp/down/matmul f32[8,16,32] x 3"), Not(HasSubstr(" h1/mlp/down/matmul"))));
}

TEST(ExplainJobTest, WhatBackwardRepeatsIsSaidAndExplained) {
  const GptConfig config{.vocabulary = 64, .layers = 3, .width = 32, .heads = 4, .context = 16};
  const Program program = *GptProgram(config, {.path = "text"}, {.train = 8}, std::nullopt, Ops());
  CompileOptions options = Options({{"dp", 2}, {"tp", 2}});
  options.recompute.what = "layers";
  ASSERT_OK_AND_ASSIGN(const JobFacts job, FactsOf(program, options));
  EXPECT_THAT(ExplainJob(job), AllOf(HasSubstr("  backward repeats "), HasSubstr(" of a micro-batch on a rank\n")));
  ASSERT_OK_AND_ASSIGN(const std::string clone, ExplainTensor(job, "h1/mlp/gelu/recompute"));
  EXPECT_THAT(clone, AllOf(HasSubstr("backward, 'h1/mlp/gelu' computed again\n"), HasSubstr("  made by       gelu "),
                           HasSubstr("'h1/mlp/up/bias_add/recompute' f32[8,16,128]")));
  EXPECT_THAT(ExplainAsHtml(job), HasSubstr("h1/mlp/gelu/recompute"));
}

TEST(ExplainJobTest, PrecisionIsSaidAndExplained) {
  const GptConfig config{.vocabulary = 64, .layers = 1, .width = 32, .heads = 4, .context = 16};
  const Program program = *GptProgram(config, {.path = "text"}, {.train = 8}, std::nullopt, Ops());
  CompileOptions options = Options({{"dp", 2}});
  ASSERT_OK_AND_ASSIGN(const JobFacts full, FactsOf(program, options));
  EXPECT_THAT(ExplainJob(full), Not(HasSubstr("precision")));
  options.precision.compute = DType::kBFloat16;
  options.fuse = false;  // each op computes by itself
  ASSERT_OK_AND_ASSIGN(const JobFacts job, FactsOf(program, options));
  EXPECT_THAT(ExplainJob(job), HasSubstr("  precision: "));
  const auto computed_in = [&](const std::string& tensor) -> std::string {
    const absl::StatusOr<std::string> text = ExplainTensor(job, tensor);
    return text.ok() ? *text : std::string(text.status().message());
  };
  EXPECT_THAT(computed_in("h0/mlp/up/matmul"), HasSubstr("  computed in   bf16, as the job asks; sums are f32\n"));
  EXPECT_THAT(computed_in("h0/mlp/gelu"), HasSubstr("  computed in   bf16, as what it reads\n"));
  EXPECT_THAT(computed_in("softmax_cross_entropy"), HasSubstr("  computed in   f32, whatever is asked for\n"));
  EXPECT_THAT(computed_in("h0/mlp/up/weight"), HasSubstr("  computed in   f32: what is trained and saved\n"));
  EXPECT_THAT(computed_in("h0/mlp/up/weight/bf16"),
              HasSubstr("  computed in   f32 rounded to bf16, for readers that compute in it\n"));
}

TEST(ExplainJobTest, WhatWasMadeAfterLayoutsWereChosenIsExplained) {
  const GptConfig config{.vocabulary = 64, .layers = 1, .width = 64, .heads = 4, .context = 16};
  const Program program = *GptProgram(config, {.path = "text"}, {.train = 8}, std::nullopt, Ops());
  CompileOptions options = Options({{"dp", 2}});
  options.precision.compute = DType::kBFloat16;
  ASSERT_OK_AND_ASSIGN(const JobFacts job, FactsOf(program, options));
  const auto explained = [&](const std::string& tensor) -> std::string {
    const absl::StatusOr<std::string> text = ExplainTensor(job, tensor);
    return text.ok() ? *text : std::string(text.status().message());
  };
  EXPECT_THAT(explained("h0/mlp/up/matmul/packed"),
              AllOf(HasSubstr("  computed in   f32 rounded to bf16 in panels, as products read it\n"),
                    HasSubstr("; follows 'h0/mlp/up/weight'\n"), HasSubstr("none: it was made after layouts")));
  EXPECT_THAT(explained("h0/attn/q/matmul"),
              AllOf(HasSubstr(" is computed as part of 'h0/attn/q/bias_add'\n"), HasSubstr("  made by       packed_")));
  EXPECT_THAT(explained("h0/mlp/up/weight/bf16"),
              AllOf(HasSubstr("'h0/mlp/up/weight/bf16' (cast"),
                    HasSubstr(" is computed as part of 'h0/mlp/up/matmul/packed'\n")));
  EXPECT_THAT(ExplainAsHtml(job), HasSubstr("h0/mlp/up/matmul/packed"));
}

TEST(ExplainJobTest, WhatWasReorderedIsExplained) {
  const ImageData data{.train_images = "images", .train_labels = "labels"};
  const Program program = *ConvNetProgram({}, data, {.train = 8}, Ops());
  ASSERT_OK_AND_ASSIGN(const JobFacts job, FactsOf(program, Options({{"dp", 2}})));
  const absl::StatusOr<std::string> text = ExplainTensor(job, "max_pool2d_2/rows");
  ASSERT_OK(text);
  EXPECT_THAT(*text, AllOf(HasSubstr("  made by       reorder 'max_pool2d_2/rows'"),
                           HasSubstr("none: it was made after layouts")));
}

TEST(ExplainJobTest, OneRankBoxesNothing) {
  ASSERT_OK_AND_ASSIGN(const JobFacts job, FactsOf({*GraphFromText(kExample, Ops())}, Options({})));
  EXPECT_THAT(ExplainJob(job), HasSubstr("nothing is boxed"));
}

}  // namespace
}  // namespace oneflow::testing
