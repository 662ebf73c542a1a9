// Results depend on the plan alone: under whatever order of streams, blocks and threads CUDA leaves open, a job
// computes the same bits.
#include "gtest/gtest.h"
#include "test/laws/layouts_law.h"
#include "test/support/cuda/software_device.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

class OrdersTest : public testing::LayoutsLaw {
 protected:
  // Every launch is in an order of its own, so a run has as many as it has steps; setting a run up takes longer than
  // many of them.
  void ExpectSameBits(const std::string& config, const std::vector<std::string>& layout, int runs, int steps) {
    steps_ = steps;
    std::vector<double> first;
    for (int seed = 1; seed <= runs; ++seed) {
      SCOPED_TRACE(absl::StrCat("seed ", seed));
      software_cuda::SetSeed(seed);
      ASSERT_OK_AND_ASSIGN(const Outcome outcome, Run(config, layout));
      if (first.empty()) first = outcome.losses;
      ASSERT_EQ(outcome.losses, first);
      ASSERT_EQ(outcome.stats.bytes_moved, outcome.predicted_bytes);
    }
  }
};

TEST_F(OrdersTest, ThreeHundredStepsInOrdersOfTheirOwnComputeTheSameBits) {
  ExpectSameBits(Mlp(), {"cluster.device=cuda", "mesh={dp:2 tp:2}", "train.micro_batches=2"}, /*runs=*/10,
                 /*steps=*/30);
}

TEST_F(OrdersTest, PipelinesComputeTheSameBits) {
  ExpectSameBits(Gpt(), {"cluster.device=cuda", "mesh={pp:2 dp:2}", "train.micro_batches=2"}, /*runs=*/3, /*steps=*/5);
}

}  // namespace
}  // namespace oneflow
