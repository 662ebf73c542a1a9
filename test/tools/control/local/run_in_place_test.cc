#include "tools/control/local/run_in_place.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "oneflow_core/composed.h"
#include "oneflow_core/models/data.h"
#include "oneflow_core/ops/ops.h"
#include "proto/plan.pb.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"
#include "tools/job/job.h"
#include "tools/job/weighted_mean.h"

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

// The loss of an evaluation over 24 samples in batches of so many, in which the labels of one class are ignored, and
// how many are not.
absl::StatusOr<WeightedMean> Evaluated(int64_t batch, const std::string& mesh) {
  const OpRegistry ops = StandardOps();
  GraphBuilder b(ops, "evaluate");
  const Batch samples =
      ReadPrototypeBatch(b, {.classes = 4, .samples = 64, .height = 4, .width = 4}, DataSplit::kValidation, batch);
  const Tensor w = b.Variable("w", {DType::kFloat32, {16, 4}}, "normal(0.3)");
  Fetch(MeanCrossEntropy(MatMul(Reshape(samples.inputs, {batch, 16}), w), samples.labels, {}, /*ignored=*/1), "loss");
  OF_ASSIGN_OR_RETURN(Graph graph, b.Finish());
  OF_ASSIGN_OR_RETURN(SourcedConfig config, ParseConfig(absl::StrCat("evaluate { batches: ", 24 / batch,
                                                                     " } train { batch_size: 1 optimizer { sgd {} ",
                                                                     "} schedule { learning_rate: 1 } } ", mesh),
                                                        "evaluated"));
  OF_ASSIGN_OR_RETURN(Job job, MakeJob(std::move(config), {std::move(graph)}));
  OF_ASSIGN_OR_RETURN(const pb::PlanSet plan, CompileJob(job, ops));
  WeightedMean mean;
  OF_RETURN_IF_ERROR(RunInPlace(job.spec, plan, [&](const pb::JobEvent& event) {
                       if (event.has_fetched()) mean.Add(event.fetched());
                     }).status());
  return mean;
}

TEST(RunInPlaceTest, AMeanOverWhatCountsIsTheSameHoweverAnEvaluationIsCut) {
  ASSERT_OK_AND_ASSIGN(const WeightedMean whole, Evaluated(24, ""));
  ASSERT_GT(whole.weight(), 0);
  ASSERT_LT(whole.weight(), 24);
  for (const int64_t batch : {1, 2, 3, 8}) {  // of one sample: some have none that counts
    for (const char* mesh : {"", "mesh { dp: 2 }"}) {
      ASSERT_OK_AND_ASSIGN(const WeightedMean parts, Evaluated(batch, mesh));
      EXPECT_EQ(parts.weight(), whole.weight()) << batch << " " << mesh;
      EXPECT_NEAR(parts.mean(), whole.mean(), 1e-6) << batch << " " << mesh;
    }
  }
}

}  // namespace
}  // namespace oneflow
