// The law of annotations: a random model under random annotations, each of which is legal by itself, compiles, and
// trains as it does on one device. ONEFLOW_RANDOM_MODELS says how many models, ONEFLOW_RANDOM_SEED which is the first.
#include <cmath>
#include <string>
#include <vector>

#include "compiler/pipeline.h"
#include "oneflow_core/graph_text.h"
#include "oneflow_core/ops/ops.h"
#include "test/laws/random_model.h"
#include "test/support/annotations.h"
#include "test/support/status_matchers.h"
#include "tools/control/local/run_in_place.h"
#include "tools/job/job.h"

namespace oneflow {
namespace {

constexpr int kModelSteps = 4;

class RandomModelsTest : public ::testing::Test {
 protected:
  // All processes and hosts are played by this one.
  absl::StatusOr<std::vector<double>> Losses(const Graph& graph, const std::string& config,
                                             const std::vector<std::string>& overrides) {
    OF_ASSIGN_OR_RETURN(SourcedConfig sourced, ParseConfig(config, "law"));
    for (const std::string& override : overrides) OF_RETURN_IF_ERROR(ApplyOverride(override, sourced));
    OF_ASSIGN_OR_RETURN(Job job, MakeJob(std::move(sourced), {graph}));
    OF_RETURN_IF_ERROR(LookAt(job));
    OF_ASSIGN_OR_RETURN(pb::Program program, CompileToProgram(job, ops_));
    for (pb::Rank& rank : *program.mutable_ranks()) rank.set_process(0);
    job.spec.set_processes(1);
    std::vector<double> losses(kModelSteps, std::nan(""));
    OF_RETURN_IF_ERROR(RunInPlace(job.spec, std::move(program), [&](const pb::JobEvent& event) {
                         if (event.fetched().name() == "loss")
                           losses[event.fetched().step()] = event.fetched().values(0);
                       }).status());
    return losses;
  }

  // What the compiler makes of the job: annotations hold, and what is computed again or narrow is counted.
  absl::Status LookAt(const Job& job) {
    VariableDists variables;
    const auto look = [&](absl::string_view pass, const Graph& graph) {
      if (pass == "select-sbp") met_ += testing::ExpectAnnotationsHold(graph);
      if (pass != Pipeline().back().name) return;
      bool again = false, narrow = false;
      for (NodeId id = 0; id < graph.num_nodes(); ++id) {
        again = again || graph.node(id).role == Role::kRecompute;
        for (const ValueId value : graph.node(id).outputs) narrow = narrow || IsNarrow(graph.value(value).type.dtype);
      }
      num_again_ += again;
      num_narrow_ += narrow;
    };
    return RunPasses(job.program[0], job.options, ops_, variables, look).status();
  }

  int met_ = 0, num_again_ = 0, num_narrow_ = 0;
  const OpRegistry ops_ = StandardOps();
};

TEST_F(RandomModelsTest, AnyAnnotationsAreMetAndChangeNoLoss) {
  const int count = FromEnvironment("ONEFLOW_RANDOM_MODELS", 150), first = FromEnvironment("ONEFLOW_RANDOM_SEED", 1);
  const char* const meshes[] = {"mesh={dp:2 tp:2}",
                                "mesh={dp:3}",
                                "mesh={tp:3}",
                                "mesh={dp:4}",
                                "mesh={tp:4}",
                                "mesh={dp:2 tp:3}",
                                "mesh={tp:2 axes{name:'x' size:2 role:'batch'}}",
                                "mesh={axes{name:'x' size:2 role:'model'} axes{name:'y' size:2 role:'model'}}"};
  for (int seed = first; seed < first + count; ++seed) {
    RandomModel model(ops_, seed);
    ASSERT_OK_AND_ASSIGN(const Graph graph, model.Make());
    const std::string config = model.Config(kModelSteps), mesh = meshes[model.Draw(8)];
    SCOPED_TRACE(absl::StrCat("ONEFLOW_RANDOM_SEED=", seed, ", ", mesh, ", ", config, "\n", GraphToText(graph)));
    ASSERT_OK_AND_ASSIGN(const std::vector<double> whole, Losses(graph, config, {}));
    const absl::StatusOr<std::vector<double>> parts = Losses(graph, config, {mesh});
    EXPECT_OK(parts.status());
    for (int step = 0; parts.ok() && step < kModelSteps; ++step) {
      EXPECT_NEAR((*parts)[step], whole[step], 1e-4 * std::max(1.0, std::abs(whole[step]))) << "step " << step + 1;
    }
  }
  EXPECT_GT(met_, count) << "what is annotated lies so";
}

// On hosts of several devices, with parts computed again, state in parts and in several numbers of processes, all at
// once. In bf16 sums are of other addends where they are split, so that losses are only near.
TEST_F(RandomModelsTest, HostsRecomputationPartsAndNarrowTypesChangeNoLossTogether) {
  const int count = FromEnvironment("ONEFLOW_RANDOM_MODELS", 60), first = FromEnvironment("ONEFLOW_RANDOM_SEED", 1);
  const char* const meshes[] = {"mesh={dp:2 tp:2}", "mesh={dp:4}",
                                "mesh={tp:4}",      "mesh={pp:2 dp:2}",
                                "mesh={pp:2 tp:2}", "mesh={dp:2 axes{name:'x' size:2 role:'stage'}}"};
  const char* const clusters[] = {"cluster={processes:2 hosts{count:2 devices:2}}",
                                  "cluster={processes:4 hosts{count:2 devices:2}}",
                                  "cluster={processes:4 hosts{count:4 devices:1}}"};
  for (int seed = first; seed < first + count; ++seed) {
    RandomModel model(ops_, seed);
    ASSERT_OK_AND_ASSIGN(Graph graph, model.Make());
    for (int i = 0; i < 2; ++i) graph.segments.push_back(Segment{"layers"});
    for (NodeId id = 0; id < graph.num_nodes(); ++id) graph.node(id).segment = 3 * id / graph.num_nodes() - 1;
    const std::string config = model.Config(kModelSteps), mesh = meshes[model.Draw(6)],
                      cluster = clusters[model.Draw(3)];
    const char* const zeros[] = {"zero={stage:1}", "zero={stage:2 axis:'tp'}", "zero={stage:3}",
                                 "zero={stage:3 prefetch:0 bucket_mb:1e-5}",
                                 "zero={stage:3 prefetch:2 bucket_mb:1e-6 keep_gathered:true}"};
    const std::string zero = zeros[model.Draw(5)];
    const bool narrow = model.Draw(2) == 0;
    const std::string type = narrow ? "precision.compute=BF16" : "precision.compute=F32";
    SCOPED_TRACE(absl::StrCat("ONEFLOW_RANDOM_SEED=", seed, ", ", mesh, ", ", cluster, ", ", zero, ", ", type, ", ",
                              config, "\n", GraphToText(graph)));
    ASSERT_OK_AND_ASSIGN(const std::vector<double> whole, Losses(graph, config, {type}));
    const absl::StatusOr<std::vector<double>> parts =
        Losses(graph, config, {type, mesh, cluster, zero, "recompute.what=layers"});
    EXPECT_OK(parts.status());
    const double tolerance = narrow ? 0.05 : 1e-4;
    for (int step = 0; parts.ok() && step < kModelSteps; ++step) {
      EXPECT_NEAR((*parts)[step], whole[step], tolerance * std::max(1.0, std::abs(whole[step]))) << "step " << step + 1;
    }
  }
  EXPECT_GT(num_again_, count / 8);
  EXPECT_GT(num_narrow_, count / 4);
}

}  // namespace
}  // namespace oneflow
