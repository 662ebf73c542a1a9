#include "oneflow_core/models/margin_classifier.h"

#include "oneflow_core/verify.h"
#include "test/oneflow_core/graph_queries.h"
#include "test/support/standard_ops.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

TEST(MarginClassifierTest, HasAnEmbeddingAndAVectorPerClass) {
  ASSERT_OK_AND_ASSIGN(
      const std::vector<Graph> program,
      MarginClassifierProgram({.widths = {32}, .embedding = 12}, {.classes = 700}, {.train = 8, .evaluate = 4}, Ops()));
  ASSERT_EQ(program.size(), 2u);
  EXPECT_OK(VerifyGraph(program[0], Ops()));
  EXPECT_OK(VerifyGraph(program[1], Ops()));
  EXPECT_EQ(testing::NumParameters(program[0]), (64 * 32 + 32) + (32 * 12 + 12) + 700 * 12);
  EXPECT_THAT(testing::Fetches(program[0]), ElementsAre("loss"));
  EXPECT_THAT(testing::Fetches(program[1]), ElementsAre("loss", "accuracy"));
}

TEST(MarginClassifierTest, TheMarginActsInTrainingOnly) {
  ASSERT_OK_AND_ASSIGN(const std::vector<Graph> program,
                       MarginClassifierProgram({}, {}, {.train = 8, .evaluate = 4}, Ops()));
  EXPECT_THAT(testing::Ops(program[0]), Contains("put_along"));
  EXPECT_THAT(testing::Ops(program[1]), Not(Contains("put_along")));
  ASSERT_OK_AND_ASSIGN(const std::vector<Graph> without,
                       MarginClassifierProgram({.margin = 0}, {}, {.train = 8}, Ops()));
  EXPECT_THAT(testing::Ops(without[0]), Not(Contains("put_along")));
}

TEST(MarginClassifierTest, RefusesImpossibleConfigsNamingTheField) {
  const auto error = [](const MarginClassifierConfig& config, const PrototypeData& data) {
    return MarginClassifierProgram(config, data, {.train = 8}, Ops()).status();
  };
  EXPECT_THAT(error({.embedding = 0}, {}), StatusIs(absl::StatusCode::kInvalidArgument,
                                                    StartsWith("margin_classifier: the embedding's width is 0")));
  EXPECT_THAT(error({.scale = 0}, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("margin_classifier: scale is 0")));
  EXPECT_THAT(error({.margin = -1}, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("margin_classifier: margin is -1")));
  EXPECT_THAT(error({}, {.classes = 0}), StatusIs(absl::StatusCode::kInvalidArgument,
                                                  StartsWith("margin_classifier: the number of classes is 0")));
}

}  // namespace
}  // namespace oneflow
