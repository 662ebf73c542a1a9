// One job, many layouts: the numbers that users read do not depend on where the tensors lie.
#include <cmath>

#include "gmock/gmock.h"
#include "test/e2e/losses.h"
#include "test/e2e/oneflow_command.h"
#include "test/support/names.h"

namespace oneflow::e2e {
namespace {

TEST(LayoutsTest, EveryStepWritesOneLineOfMetrics) {
  const Workspace work;
  const std::vector<nlohmann::json> lines = work.Metrics(work.GptJob(), OnMesh("dp: 2", 2));
  ASSERT_THAT(lines, SizeIs(kComparedSteps));
  for (size_t i = 0; i < kComparedSteps; ++i) {
    const nlohmann::json& line = lines[i];
    ASSERT_TRUE(line.is_object()) << "line " << i + 1;
    EXPECT_EQ(line.value("step", 0), i + 1);
    for (const char* name : {"loss", "lr", "grad_norm", "tokens_per_s"}) {
      ASSERT_TRUE(line.contains(name) && line[name].is_number()) << name << " in " << line;
      EXPECT_GT(line[name], 0) << name;
    }
    EXPECT_EQ(line.size(), 5) << line;
  }
  EXPECT_NEAR(lines[0]["loss"], std::log(256), 0.2) << "an untrained model guesses";
  EXPECT_LT(lines[kComparedSteps - 1]["loss"], lines[0]["loss"]);
  EXPECT_NEAR(lines[0]["lr"], 0.003 / 4, 1e-9) << "the first of four steps of warm-up";
  EXPECT_NEAR(lines[3]["lr"], 0.003, 1e-9);
}

TEST(LayoutsTest, MetricsCarryNineDigits) {
  const Workspace work;
  ASSERT_EQ(work.Run({"run", work.GptJob(), "--set", "train.steps=4", "--metrics", work.Path("m")}).exit_code, 0);
  // Nine digits tell any two floats apart; trailing zeros are not written, so most of several losses must have all.
  std::istringstream stream(ReadFile(work.Path("m")));
  size_t longest = 0;
  for (std::string line; std::getline(stream, line);) {
    const size_t begin = line.find("\"loss\": ") + 8;
    longest = std::max(longest, line.find(',', begin) - begin);
  }
  EXPECT_EQ(longest, std::string("5.12345678").size());
}

class LayoutsOf : public ::testing::TestWithParam<const char*> {
 protected:
  std::string Job() const { return GetParam() == std::string("gpt") ? work_.GptJob() : work_.ConvNetJob(); }
  const Workspace work_;
};

TEST_P(LayoutsOf, TwoProcessesOfTwoDevicesLearnAsOneDevice) {
  const std::string job = Job();
  const std::vector<double> alone = work_.Losses(job, {});
  ExpectSameLosses(work_.Losses(job, OnMesh("dp: 4", 2)), alone);
  ExpectSameLosses(work_.Losses(job, OnMesh("dp: 2 tp: 2", 2)), alone);
}

TEST_P(LayoutsOf, APipelineOfMicroBatchesLearnsAsOneDevice) {
  const std::string job = Job();
  const std::vector<double> alone = work_.Losses(job, {});
  ExpectSameLosses(work_.Losses(job, Join(OnMesh("pp: 2 dp: 2", 2), {"--set", "train.micro_batches=4"})), alone);
}

TEST_P(LayoutsOf, TwoRunsAreBitwiseEqual) {
  const std::string job = Job();
  const std::vector<std::string> layout = Join(OnMesh("pp: 2 dp: 2", 2), {"--set", "train.micro_batches=2"});
  const std::vector<double> losses = work_.Losses(job, layout);
  EXPECT_THAT(losses, SizeIs(kComparedSteps));
  EXPECT_EQ(work_.Losses(job, layout), losses);
}

INSTANTIATE_TEST_SUITE_P(Models, LayoutsOf, ::testing::Values("gpt", "convnet"),
                         [](const auto& info) { return std::string(info.param); });

TEST(LayoutsTest, UnevenSplitsLearnAsOneDevice) {
  const Workspace work;
  const std::string job = work.GptJob();
  ExpectSameLosses(work.Losses(job, OnMesh("dp: 3", 1)), work.Losses(job, {}));
}

}  // namespace
}  // namespace oneflow::e2e
