#include "compiler/explain/explain.h"
#include "test/compiler/explain/example.h"
#include "test/support/golden.h"
#include "test/support/names.h"

namespace oneflow::testing {
namespace {

TEST(ExplainTensorTest, SaysWhyItLiesSoAndWhatMoves) {
  const JobFacts job = ExampleFacts();
  std::string text;
  for (const char* name : {"up/weight", "up/matmul", "down/matmul", "losses:1", "to", "fetch", "up/weight/adam_m"}) {
    ASSERT_OK_AND_ASSIGN(const std::string explained, ExplainTensor(job, name));
    absl::StrAppend(&text, "--- ", name, "\n", explained, "\n");
  }
  EXPECT_GOLDEN("explain/tensors.txt", text);
}

TEST(ExplainTensorTest, UnevenShardsAreARange) {
  ASSERT_OK_AND_ASSIGN(const std::string text, ExplainTensor(ExampleFacts(1, 7), "up/relu"));
  EXPECT_THAT(text, HasSubstr("f32[3,16] to f32[4,16], 192 B to 256 B"));
}

TEST(ExplainTensorTest, ABeginningOfSeveralNamesListsThem) {
  ASSERT_OK_AND_ASSIGN(const std::string text, ExplainTensor(ExampleFacts(), "down"));
  EXPECT_THAT(text,
              AllOf(HasSubstr("nodes begin with 'down'\n"), HasSubstr("down/matmul "), HasSubstr("down/weight ")));
}

TEST(ExplainTensorTest, ABeginningOfOneNameIsThatTensor) {
  ASSERT_OK_AND_ASSIGN(const std::string text, ExplainTensor(ExampleFacts(), "ro"));
  EXPECT_THAT(text, HasSubstr("tensor 'rows' of graph 'train'"));
}

TEST(ExplainTensorTest, OtherGraphsWithTheTensorAreNamed) {
  Graph evaluate = *GraphFromText(kExample, Ops());
  evaluate.losses.clear();
  ASSERT_OK_AND_ASSIGN(const JobFacts job,
                       FactsOf({*GraphFromText(kExample, Ops()), evaluate}, Options({{"dp", 2}, {"tp", 2}})));
  ASSERT_OK_AND_ASSIGN(const std::string text, ExplainTensor(job, "up/weight"));
  EXPECT_THAT(text, HasSubstr("also in graph 'train': f32[16,32] [dp=2,tp=2]{0,1,2,3}(B,S(1))"));
}

TEST(ExplainTensorTest, AnUnknownNameIsAnErrorWithTheNearest) {
  EXPECT_THAT(ExplainTensor(ExampleFacts(), "up/rela").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("'up/relu'")));
}

}  // namespace
}  // namespace oneflow::testing
