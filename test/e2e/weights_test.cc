// Weight files: what one layout saves, every other loads.
#include <cmath>

#include "absl/strings/str_format.h"
#include "actor/checkpoint/safetensors.h"
#include "gmock/gmock.h"
#include "test/e2e/oneflow_command.h"
#include "test/support/status_matchers.h"

namespace oneflow::e2e {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

TEST(WeightsTest, InitialWeightsAreTheSameFileUnderEveryLayout) {
  const Workspace work;
  const std::vector<std::string> only_save = {"--set", "train.steps=1", "--save-initial-weights"};
  work.Losses(work.GptJob(), Join(only_save, {work.Path("one")}));
  work.Losses(work.GptJob(), Join(Join(only_save, {work.Path("dp2tp2")}), OnMesh("dp: 2 tp: 2", 2)));
  work.Losses(work.GptJob(), Join(Join(only_save, {work.Path("pp2dp2")}), OnMesh("pp: 2 dp: 2", 2)));
  EXPECT_GT(ReadFile(work.Path("one")).size(), 30'000) << "2 layers of width 16, two tables of 256 x 16";
  EXPECT_TRUE(ReadFile(work.Path("one")) == ReadFile(work.Path("dp2tp2")));
  EXPECT_TRUE(ReadFile(work.Path("one")) == ReadFile(work.Path("pp2dp2")));
}

TEST(WeightsTest, AFileHoldsTheModelsTensors) {
  const Workspace work;
  work.Losses(work.ConvNetJob(), Join({"--save-weights", work.Path("w")}, OnMesh("dp: 2 tp: 2", 2)));
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader file, SafetensorsReader::Open(work.Path("w")));
  std::vector<std::string> tensors;
  for (const auto& [name, entry] : file.tensors()) tensors.push_back(name + " " + entry.type.ToString());
  EXPECT_THAT(tensors, ElementsAre("conv0/bias f32[4]", "conv0/weight f32[4,1,5,5]", "conv1/bias f32[8]",
                                   "conv1/weight f32[8,4,5,5]", "fc/bias f32[16]", "fc/weight f32[392,16]",
                                   "head/bias f32[4]", "head/weight f32[16,4]"));
}

TEST(WeightsTest, AnotherLayoutContinuesWhereOneStopped) {
  const Workspace work;
  // Without a state of the optimizer and at a constant rate, a broken run is the whole run.
  const std::vector<std::string> stateless = {"--set", "train.optimizer={sgd {}}", "--set",
                                              "train.schedule={learning_rate: 0.1}"};
  const auto steps = [&](int n) { return Join(stateless, {"--set", "train.steps=" + std::to_string(n)}); };
  const std::string job = work.GptJob(), weights = work.Path("w");
  work.Losses(job, Join(Join(steps(3), {"--save-weights", weights}), OnMesh("dp: 2 tp: 2", 2)));

  // Every run begins with the first batch, so the saved weights are tried on that batch by three layouts.
  const auto first_loss = [&](const std::vector<std::string>& layout) {
    const std::vector<double> losses = work.Losses(job, Join(Join(steps(1), {"--weights", weights}), layout));
    EXPECT_THAT(losses, SizeIs(1));
    return losses.at(0);
  };
  const double same = first_loss(OnMesh("dp: 2 tp: 2", 2));
  EXPECT_LT(same, work.Losses(job, steps(1)).at(0)) << "three steps have taught something";
  EXPECT_NEAR(first_loss({}) / same, 1, 1e-6);
  EXPECT_NEAR(first_loss(OnMesh("pp: 2 dp: 2", 2)) / same, 1, 1e-6);
}

TEST(WeightsTest, EvaluationOfSavedWeightsIsTheOneAtTheEndOfTheRun) {
  const Workspace work;
  const std::string job = work.GptJob(), weights = work.Path("w");
  const std::vector<nlohmann::json> lines =
      work.Metrics(job, {"--set", "evaluate={batches: 3}", "--save-weights", weights});
  ASSERT_THAT(lines, SizeIs(20));
  ASSERT_TRUE(lines.back().contains("validation_loss")) << lines.back();
  const Outcome again =
      work.Run(Join({"run", job, "--set", "evaluate={batches: 3}", "--set", "train.steps=0", "--weights", weights},
                    OnMesh("dp: 2 tp: 2", 2)));
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.out, ::testing::HasSubstr(
                             absl::StrFormat("validation loss %.4f", lines.back()["validation_loss"].get<double>())));
}

}  // namespace
}  // namespace oneflow::e2e
