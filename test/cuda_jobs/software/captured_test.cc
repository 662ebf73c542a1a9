// Jobs whose devices capture what acts launch: they compute what they would without, and launch it as a whole.
#include <string>
#include <vector>

#include "test/laws/layouts_law.h"
#include "test/support/cuda/software_device.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

using software_cuda::LaunchedSoFar;

class CapturedJobsTest : public testing::LayoutsLaw {
 protected:
  CapturedJobsTest() { steps_ = 4; }

  // With what of it is fetched, and how many graphs it launched.
  std::pair<Outcome, int64_t> Trained(const std::string& config, std::vector<std::string> overrides) {
    const int64_t before = LaunchedSoFar().graphs;
    overrides.push_back("cluster.device=cuda");
    const absl::StatusOr<Outcome> outcome = Run(config, overrides);
    EXPECT_OK(outcome.status());
    return {outcome.ok() ? *outcome : Outcome(), LaunchedSoFar().graphs - before};
  }
};

// Of dropout, every step and micro-batch draws other numbers than that in which it was captured.
TEST_F(CapturedJobsTest, AGptTrainsToTheBitAsWhenKernelsAreLaunchedOneByOne) {
  for (const std::vector<std::string>& layout :
       std::vector<std::vector<std::string>>{{"train.micro_batches=4"},
                                             {"mesh={dp:2 tp:2}"},
                                             {"mesh={pp:2 dp:2}", "train.micro_batches=2"},
                                             {"precision.compute=F16", "mesh={dp:2}"}}) {
    SCOPED_TRACE(absl::StrJoin(layout, " "));
    std::vector<std::string> one_by_one = layout;
    one_by_one.push_back("uncaptured=true");
    const auto [captured, graphs] = Trained(Gpt(), layout);
    const auto [alone, no_graphs] = Trained(Gpt(), one_by_one);
    EXPECT_EQ(captured.fetched, alone.fetched);
    EXPECT_GT(graphs, 0);
    EXPECT_EQ(no_graphs, 0);
  }
}

TEST_F(CapturedJobsTest, AStepOfOneDeviceIsFewLaunches) {
  const auto [whole, graphs] = Trained(Gpt(), {});
  // The first step launches one by one; in the others what is between reading and fetching is a piece or two.
  EXPECT_GE(graphs, steps_ - 1);
  EXPECT_LE(graphs, 3 * (steps_ - 1));
}

// Every kernel is launched in microseconds and computed, by a thread for each of its threads, in milliseconds.
TEST_F(CapturedJobsTest, AProfileTimesWhatKernelsComputeAndNotTheirLaunches) {
  profile_ = true;
  const auto [outcome, graphs] = Trained(Gpt(), {});
  double timed = 0;
  for (const OpTime& op : outcome.stats.ops) timed += op.seconds;
  EXPECT_EQ(graphs, 0);
  EXPECT_GT(timed, 0.5 * outcome.stats.run_seconds);
}

TEST_F(CapturedJobsTest, AConvNetTrainsToTheBitToo) {
  const auto [captured, graphs] = Trained(ConvNet(), {"mesh={dp:2}"});
  const auto [alone, no_graphs] = Trained(ConvNet(), {"mesh={dp:2}", "uncaptured=true"});
  EXPECT_EQ(captured.fetched, alone.fetched);
  EXPECT_GT(graphs, 0);
}

}  // namespace
}  // namespace oneflow
