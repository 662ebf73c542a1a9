// What a bucket of gradients costs in launches of the communication library: one, not one for each tensor.
#include "gtest/gtest.h"
#include "test/laws/layouts_law.h"
#include "test/support/cuda/software_device.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

class GroupsTest : public testing::LayoutsLaw {
 protected:
  struct Count {
    int64_t calls = 0, launches = 0;  // of a step, on all ranks
  };

  // What the plan says.
  Count CountIn(const std::string& config, const std::vector<std::string>& layout) {
    absl::StatusOr<SourcedConfig> sourced = ParseConfig(config, "groups");
    EXPECT_OK(sourced.status());
    EXPECT_OK(ApplyOverride("train.steps=2", *sourced));
    for (const std::string& one : layout) EXPECT_OK(ApplyOverride(one, *sourced));
    absl::StatusOr<Job> job = MakeJob(*std::move(sourced), JobKind::kTrain, ops_);
    EXPECT_OK(job.status());
    const absl::StatusOr<pb::Program> program = CompileToProgram(*job, ops_);
    EXPECT_OK(program.status());
    Count count;
    for (const pb::Actor& actor : program->plans(0).actors()) {
      int group = 0;
      for (const pb::Instruction& x : actor.instructions()) {
        if (x.kind() != pb::Instruction::COLLECTIVE) continue;
        count.calls += actor.acts_per_step();
        if (x.group() == 0 || x.group() != group) count.launches += actor.acts_per_step();
        group = x.group();
      }
    }
    return count;
  }

  // Launches of the library in one step on all ranks: what a step more takes.
  int64_t LaunchesOfAStep(const std::string& config, const std::vector<std::string>& layout) {
    int64_t launches[2] = {};
    for (const int more : {0, 1}) {
      steps_ = 2 + more;
      const int64_t before = software_cuda::CollectiveLaunches();
      EXPECT_OK(Run(config, layout).status());
      launches[more] = software_cuda::CollectiveLaunches() - before;
    }
    return launches[1] - launches[0];
  }
};

TEST_F(GroupsTest, ABucketIsOneLaunch) {
  const std::vector<std::string> layout = {"cluster.device=cuda", "mesh={dp:4}"};
  const Count count = CountIn(Gpt(), layout);
  EXPECT_EQ(LaunchesOfAStep(Gpt(), layout), count.launches);
  RecordProperty("calls", std::to_string(count.calls));
  RecordProperty("launches", std::to_string(count.launches));
  EXPECT_LE(8 * count.launches, count.calls) << count.launches << " launches for " << count.calls << " calls";
}

}  // namespace
}  // namespace oneflow
