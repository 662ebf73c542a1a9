#include "compiler/explain/explain.h"
#include "compiler/explain/html.h"
#include "oneflow_core/models/gpt.h"
#include "test/compiler/explain/example.h"
#include "test/support/golden.h"

namespace oneflow::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

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

TEST(ExplainJobTest, OneRankBoxesNothing) {
  ASSERT_OK_AND_ASSIGN(const JobFacts job, FactsOf({*GraphFromText(kExample, Ops())}, Options({})));
  EXPECT_THAT(ExplainJob(job), HasSubstr("nothing is boxed"));
}

}  // namespace
}  // namespace oneflow::testing
