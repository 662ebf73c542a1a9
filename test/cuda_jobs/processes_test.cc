// `oneflow run` on CUDA devices of one and two processes.
#include <cmath>

#include "gmock/gmock.h"
#include "test/cuda_jobs/devices.h"
#include "test/e2e/oneflow_command.h"
#include "test/support/names.h"

namespace oneflow::e2e {
namespace {

class CudaProcessesTest : public ::testing::Test {
 protected:
  static constexpr size_t kSteps = 5;

  void SetUp() override {
    if (const std::string why = testing::LacksCudaDevices(4); !why.empty()) GTEST_SKIP() << why;
  }

  std::vector<double> Losses(const std::string& job, const std::vector<std::string>& arguments) const {
    return work_.Losses(job, Join(arguments, {"--set", absl::StrCat("train.steps=", kSteps)}));
  }
  std::vector<double> OnCuda(const std::string& job, const std::vector<std::string>& arguments) const {
    return Losses(job, Join(arguments, {"--set", "cluster.device=cuda"}));
  }
  // Those of one device of the host, within 1e-5.
  void ExpectLosses(const std::vector<double>& got, const std::vector<double>& want) const {
    ASSERT_THAT(got, SizeIs(kSteps));
    ASSERT_THAT(want, SizeIs(kSteps));
    for (size_t i = 0; i < kSteps; ++i) EXPECT_LE(std::abs(got[i] / want[i] - 1), 1e-5) << "step " << i + 1;
  }

  const Workspace work_;
};

TEST_F(CudaProcessesTest, AGptLearnsAsOnTheHost) {
  const std::string job = work_.GptJob();
  const std::vector<double> host = Losses(job, {});
  ExpectLosses(OnCuda(job, {}), host);
  ExpectLosses(OnCuda(job, OnMesh("dp: 2 tp: 2", 1)), host);
  ExpectLosses(OnCuda(job, OnMesh("dp: 2", 2)), host);
  ExpectLosses(OnCuda(job, OnMesh("dp: 2 tp: 2", 2)), host);
  ExpectLosses(OnCuda(job, Join(OnMesh("pp: 2 dp: 2", 2), {"--set", "train.micro_batches=4"})), host);
}

TEST_F(CudaProcessesTest, AConvNetLearnsAsOnTheHost) {
  const std::string job = work_.ConvNetJob();
  const std::vector<double> host = Losses(job, {});
  ExpectLosses(OnCuda(job, {}), host);
  ExpectLosses(OnCuda(job, OnMesh("dp: 4", 2)), host);
}

TEST_F(CudaProcessesTest, ATraceHoldsWhatWasLaunched) {
  const Outcome ran = work_.Run(Join({"run", work_.GptJob(), "--set", "train.steps=5", "--trace", work_.Path("t.json")},
                                     Join(OnMesh("dp: 2", 2), {"--set", "cluster.device=cuda"})));
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const std::string trace = ReadFile(work_.Path("t.json"));
  EXPECT_THAT(trace, HasSubstr("compute (launches)"));  // for people: not what the device did
  const Outcome summary = work_.Run({"trace", "summary", work_.Path("t.json")});
  EXPECT_THAT(summary.out, AllOf(HasSubstr("5 steps, of which 5 are whole"), HasSubstr("bottleneck: "))) << summary.err;
}

TEST_F(CudaProcessesTest, WeightsGoToDevicesAndComeBack) {
  const std::string job = work_.GptJob();
  const std::vector<std::string> cuda = Join(OnMesh("tp: 2", 2), {"--set", "cluster.device=cuda"});
  ASSERT_EQ(
      work_.Run(Join({"run", job, "--set", "train.steps=3", "--save-weights", work_.Path("cuda")}, cuda)).exit_code, 0);
  // From what three steps on devices left, the host goes on as the devices do.
  const std::vector<std::string> on = {"--weights", work_.Path("cuda")};
  ExpectLosses(OnCuda(job, Join(on, OnMesh("dp: 2", 1))), Losses(job, on));
}

TEST_F(CudaProcessesTest, TwoRunsAreBitwiseEqual) {
  const std::string job = work_.GptJob();
  const std::vector<std::string> layout = Join(OnMesh("pp: 2 dp: 2", 2), {"--set", "train.micro_batches=2"});
  EXPECT_EQ(OnCuda(job, layout), OnCuda(job, layout));
}

}  // namespace
}  // namespace oneflow::e2e
