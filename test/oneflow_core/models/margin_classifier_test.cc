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

TEST(MarginClassifierTest, HeadNormsSeeAllPixelsOfAResNet) {
  MarginClassifierConfig config = {.head_norms = true, .dropout = 0.4, .embedding = 12};
  config.resnet = AttrMap{{"depth", int64_t{18}}, {"width", int64_t{2}}, {"small_images", true}};
  ASSERT_OK_AND_ASSIGN(const std::vector<Graph> program, MarginClassifierProgram(config, {.height = 16, .width = 16},
                                                                                 {.train = 8, .evaluate = 4}, Ops()));
  std::map<std::string, std::string> parameters = testing::Parameters(program[0]);
  EXPECT_EQ(parameters["norm_in/weight"], "f32[16] ones");
  EXPECT_THAT(parameters["embedding/weight"], StartsWith("f32[64,12]")) << "16 channels of 2 x 2 pixels";
  EXPECT_EQ(parameters["norm_out/bias"], "f32[12] zeros");
  EXPECT_EQ(parameters.count("norm_out/weight"), 0u);
  EXPECT_THAT(testing::Ops(program[0]), Contains("dropout"));
  EXPECT_THAT(testing::Ops(program[1]), Not(Contains("dropout")));
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
