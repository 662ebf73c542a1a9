#include "tools/control/local/run_in_place.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "oneflow_core/ops/ops.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"
#include "tools/job/job.h"

namespace oneflow {
namespace {

// Runs a job whose every read takes two seconds, though nothing may stand still for longer than 0.8 s. `stalls`: what
// is told of that.
absl::Status RunWithSlowReads(bool abort, std::vector<std::string>& stalls) {
  const TestDir dir;
  const std::string text = dir.Write("text", std::string(4000, 'x'));
  const OpRegistry ops = StandardOps();
  OF_ASSIGN_OR_RETURN(
      SourcedConfig config,
      ParseConfig(
          absl::StrCat("model { gpt { layers: 1 width: 8 heads: 1 context: 8 } }\n", "data { text { path: '", text,
                       "' } least_read_ms: 2000 }\n",
                       "train { steps: 1 batch_size: 2 optimizer { sgd {} } schedule { learning_rate: 0.1 } }\n",
                       "stall { seconds: 0.8 abort: ", abort ? "true" : "false", " }"),
          "stalls"));
  OF_ASSIGN_OR_RETURN(Job job, MakeJob(std::move(config), JobKind::kTrain, ops));
  OF_ASSIGN_OR_RETURN(const pb::PlanSet plan, CompileJob(job, ops));
  return RunInPlace(job.spec, plan,
                    [&](const pb::JobEvent& event) {
                      if (event.has_stall()) stalls.push_back(event.stall().text());
                    })
      .status();
}

TEST(RunInPlaceTest, TellsOfAStallWithWhatItWaitsForOrEndsWithThat) {
  const auto what = AllOf(HasSubstr("nothing moved in process 0 for 0.8 s: "), HasSubstr("(read_data, "));
  std::vector<std::string> stalls;
  EXPECT_OK(RunWithSlowReads(/*abort=*/false, stalls));
  EXPECT_THAT(stalls, Contains(what));
  stalls.clear();
  EXPECT_THAT(RunWithSlowReads(/*abort=*/true, stalls), StatusIs(absl::StatusCode::kDeadlineExceeded, what));
  EXPECT_THAT(stalls, IsEmpty());
}

}  // namespace
}  // namespace oneflow
