// What a job's first step finds done: libraries that do something when they are first called were called before.
#include <algorithm>

#include "gmock/gmock.h"
#include "test/laws/layouts_law.h"
#include "test/support/cuda/memory.h"
#include "test/support/cuda/software_device.h"

namespace oneflow {
namespace {

class WarmUpTest : public testing::LayoutsLaw {
 protected:
  struct Used {
    int64_t connected = 0, kernels = 0;
    size_t bytes = 0;  // of the first device
  };
  static Used Now() {
    return {software_cuda::ConnectedRanks(), software_cuda::LoadedKernels(), software_cuda::BytesInUse(0)};
  }

  absl::StatusOr<Job> JobOf(const std::string& config, std::vector<std::string> overrides) {
    OF_ASSIGN_OR_RETURN(SourcedConfig sourced, ParseConfig(config, "warm"));
    overrides.push_back("cluster.device=cuda");
    for (const std::string& one : overrides) OF_RETURN_IF_ERROR(ApplyOverride(one, sourced));
    return MakeJob(std::move(sourced), JobKind::kTrain, ops_);
  }
};

TEST_F(WarmUpTest, NoLibraryIsCalledFirstWithinAStep) {
  for (const std::vector<std::string>& layout : std::vector<std::vector<std::string>>{
           {"mesh={dp:2 tp:2}", "train.steps=3"}, {"mesh={pp:2 dp:2}", "train.micro_batches=2", "train.steps=3"}}) {
    SCOPED_TRACE(absl::StrJoin(layout, " "));
    ASSERT_OK_AND_ASSIGN(Job job, JobOf(Gpt(), layout));
    ASSERT_OK_AND_ASSIGN(const pb::Program program, CompileToProgram(job, ops_));
    size_t ranks = 0;  // of communicators
    for (const pb::Communicator& it : program.communicators()) ranks += it.ranks_size();
    ASSERT_GT(ranks, 4);
    const Used before = Now();
    Used loaded, ended;
    ASSERT_OK(RunInPlace(job.spec, program, [&](const pb::JobEvent& event) {
                if (event.state().state() == pb::RUNNING) loaded = Now();
                if (event.has_phase_done()) ended = Now();
              }).status());
    EXPECT_EQ(loaded.connected - before.connected, ranks);
    EXPECT_EQ(ended.connected, loaded.connected);
    EXPECT_EQ(ended.kernels, loaded.kernels);
    EXPECT_EQ(ended.bytes, loaded.bytes) << "handles were made, or memory was taken, in a step";
  }
}

}  // namespace
}  // namespace oneflow
