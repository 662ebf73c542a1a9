#include "compiler/explain/explain.h"
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

TEST(ExplainJobTest, OneRankBoxesNothing) {
  ASSERT_OK_AND_ASSIGN(const JobFacts job, FactsOf({*GraphFromText(kExample, Ops())}, Options({})));
  EXPECT_THAT(ExplainJob(job), HasSubstr("nothing is boxed"));
}

}  // namespace
}  // namespace oneflow::testing
