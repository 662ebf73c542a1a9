// What a step's updates cost in launches: one for all tensors of a rank that are updated alike.
#include "gtest/gtest.h"
#include "test/laws/layouts_law.h"
#include "test/support/cuda/software_device.h"

namespace oneflow {
namespace {

class JoinedTest : public testing::LayoutsLaw {
 protected:
  int64_t UpdatesLaunched(const std::vector<std::string>& layout) {
    const int64_t before = software_cuda::KernelLaunches("AdamwKernel");
    std::vector<std::string> overrides = layout;
    overrides.insert(overrides.end(), {"cluster.device=cuda", "uncaptured=true"});
    EXPECT_OK(Run(Gpt(), overrides).status());
    return software_cuda::KernelLaunches("AdamwKernel") - before;
  }
};

// And before the first step once more, to warm up. Matrices are decayed, biases and gains are not.
TEST_F(JoinedTest, AStepUpdatesAllTensorsOfARankInTwoLaunches) {
  steps_ = 3;
  EXPECT_EQ(UpdatesLaunched({}), 2 * (steps_ + 1));
  EXPECT_EQ(UpdatesLaunched({"mesh={dp:2 tp:2}"}), 4 * 2 * (steps_ + 1));
  EXPECT_EQ(UpdatesLaunched({"train.optimizer.adamw.weight_decay=0"}), steps_ + 1);
}

}  // namespace
}  // namespace oneflow
