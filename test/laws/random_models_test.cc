// The law of annotations: a random model under random annotations, each of which is legal by itself, compiles, and
// trains as it does on one device. ONEFLOW_RANDOM_MODELS says how many models, ONEFLOW_RANDOM_SEED which is the first.
#include <cmath>
#include <string>
#include <vector>

#include "oneflow_core/graph_text.h"
#include "oneflow_core/ops/ops.h"
#include "test/laws/random_model.h"
#include "test/support/status_matchers.h"
#include "tools/job/job.h"
#include "tools/local/run_in_place.h"

namespace oneflow {
namespace {

using ::oneflow::testing::FromEnvironment;
using ::oneflow::testing::RandomModel;

constexpr int kModelSteps = 4;

class RandomModelsTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::vector<double>> Losses(const Graph& graph, const std::string& config,
                                             const std::string& override) {
    OF_ASSIGN_OR_RETURN(SourcedConfig sourced, ParseConfig(config, "law"));
    if (!override.empty()) OF_RETURN_IF_ERROR(ApplyOverride(override, sourced));
    OF_ASSIGN_OR_RETURN(Job job, MakeJob(std::move(sourced), {graph}));
    OF_ASSIGN_OR_RETURN(pb::PlanSet plan, CompileJob(job, ops_));
    std::vector<double> losses(kModelSteps, std::nan(""));
    OF_RETURN_IF_ERROR(RunInPlace(job.spec, std::move(plan), [&](const pb::JobEvent& event) {
                         if (event.fetched().name() == "loss")
                           losses[event.fetched().step()] = event.fetched().values(0);
                       }).status());
    return losses;
  }

  const OpRegistry ops_ = StandardOps();
};

TEST_F(RandomModelsTest, AnyAnnotationsAreMetAndChangeNoLoss) {
  const int count = FromEnvironment("ONEFLOW_RANDOM_MODELS", 150), first = FromEnvironment("ONEFLOW_RANDOM_SEED", 1);
  const char* const meshes[] = {"mesh={dp:2 tp:2}", "mesh={dp:3}", "mesh={tp:3}",
                                "mesh={dp:4}",      "mesh={tp:4}", "mesh={dp:2 tp:3}"};
  for (int seed = first; seed < first + count; ++seed) {
    RandomModel model(ops_, seed);
    ASSERT_OK_AND_ASSIGN(const Graph graph, model.Make());
    const std::string config = model.Config(kModelSteps), mesh = meshes[model.Draw(6)];
    SCOPED_TRACE(absl::StrCat("ONEFLOW_RANDOM_SEED=", seed, ", ", mesh, ", ", config, "\n", GraphToText(graph)));
    ASSERT_OK_AND_ASSIGN(const std::vector<double> whole, Losses(graph, config, ""));
    const absl::StatusOr<std::vector<double>> parts = Losses(graph, config, mesh);
    EXPECT_OK(parts.status());
    for (int step = 0; parts.ok() && step < kModelSteps; ++step) {
      EXPECT_NEAR((*parts)[step], whole[step], 1e-4 * std::max(1.0, std::abs(whole[step]))) << "step " << step + 1;
    }
  }
}

}  // namespace
}  // namespace oneflow
