// Which streams a rank's queues have.
#include <algorithm>

#include "gmock/gmock.h"
#include "test/laws/layouts_law.h"
#include "test/support/cuda/software_device.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

class StreamsTest : public testing::LayoutsLaw {
 protected:
  // How urgent streams of a device were while a job ran that were not there before.
  std::vector<int> PrioritiesIn(const std::string& mesh) {
    const size_t before = software_cuda::StreamPriorities(0).size();
    std::vector<int> priorities;
    const auto look = [&](const pb::JobEvent& event) {
      if (event.state().state() == pb::RUNNING) priorities = software_cuda::StreamPriorities(0);
    };
    absl::StatusOr<SourcedConfig> sourced = ParseConfig(Mlp(), "streams");
    EXPECT_OK(sourced.status());
    for (const std::string& one : {mesh, std::string("cluster.device=cuda"), std::string("train.steps=2")}) {
      EXPECT_OK(ApplyOverride(one, *sourced));
    }
    absl::StatusOr<Job> job = MakeJob(*std::move(sourced), JobKind::kTrain, ops_);
    EXPECT_OK(job.status());
    const absl::StatusOr<pb::Program> program = CompileToProgram(*job, ops_);
    EXPECT_OK(program.status());
    EXPECT_OK(RunInPlace(job->spec, *program, look).status());
    priorities.erase(priorities.begin(), priorities.begin() + static_cast<ptrdiff_t>(before));
    return priorities;
  }
};

TEST_F(StreamsTest, WhatCommunicatesGoesFirst) {
  int least = 0, greatest = 0;
  ASSERT_EQ(cudaDeviceGetStreamPriorityRange(&least, &greatest), cudaSuccess);
  EXPECT_THAT(PrioritiesIn("mesh={dp:1}"), Each(least)) << "nothing communicates";
  const std::vector<int> with_peers = PrioritiesIn("mesh={dp:2}");
  EXPECT_EQ(std::count(with_peers.begin(), with_peers.end(), greatest), 1) << ::testing::PrintToString(with_peers);
}

}  // namespace
}  // namespace oneflow
