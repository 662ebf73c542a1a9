#include "tools/bench/compilation.h"

#include <chrono>
#include <ctime>
#include <optional>

#include "compiler/pipeline.h"
#include "compiler/select/select_sbp.h"
#include "oneflow_core/models/gpt.h"
#include "proto/plan.pb.h"
#include "tools/job/job.h"

namespace oneflow {
namespace {

class CpuStopwatch {
 public:
  CompilationRound Read() const {
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - wall_;
    return {static_cast<double>(std::clock() - cpu_) / CLOCKS_PER_SEC, wall.count()};
  }

 private:
  const std::clock_t cpu_ = std::clock();
  const std::chrono::steady_clock::time_point wall_ = std::chrono::steady_clock::now();
};

// The graph as the pass that selects finds it.
absl::Status RunPassesBefore(absl::string_view last, Graph& graph, PassContext& context) {
  size_t count = 0;
  while (count < Pipeline().size() && Pipeline()[count].name != last) ++count;
  return RunPipeline(Pipeline().subspan(0, count), graph, context, nullptr);
}

}  // namespace

absl::StatusOr<Compilation> MeasureSelection(int64_t layers, const OpRegistry& ops) {
  const GptConfig config{.layers = layers, .width = 64, .context = 64, .dropout = 0.1};
  OF_ASSIGN_OR_RETURN(std::vector<Graph> program,
                      GptProgram(config, {.path = "text"}, {.train = 8}, std::nullopt, ops));
  CompileOptions options;
  options.job = "select-sbp";
  OF_ASSIGN_OR_RETURN(options.mesh, Mesh::Create({{"dp", 2}, {"tp", 2}, {"sp", 2}}));
  const VariableDists variables;
  PassContext context{options, ops, variables, JobTopology(options)};
  OF_RETURN_IF_ERROR(RunPassesBefore("select-sbp", program[0], context));
  const CpuStopwatch stopwatch;
  OF_ASSIGN_OR_RETURN(const Selection selection, SelectSbp(program[0], ops, context.topology, variables, {}));
  return Compilation{.round = stopwatch.Read(),
                     .work = {.nodes = program[0].num_nodes(),
                              .prices = selection.num_prices,
                              .exact = selection.exact,
                              .predicted_seconds = selection.seconds,
                              .lower_bound = selection.lower_bound}};
}

absl::StatusOr<Compilation> MeasureCompile(const SourcedConfig& config, const OpRegistry& ops) {
  const CpuStopwatch stopwatch;
  OF_ASSIGN_OR_RETURN(Job job, MakeJob(config, JobKind::kTrain, ops));
  OF_ASSIGN_OR_RETURN(const pb::PlanSet plans, CompileJob(job, ops));
  Compilation result{.round = stopwatch.Read()};
  for (const Graph& graph : job.program) result.work.nodes += graph.num_nodes();
  for (const pb::ClassPlan& plan : plans.plans()) result.work.actors += plan.actors_size();
  result.work.ranks = plans.hosts().num_ranks();
  result.work.plan_bytes = static_cast<double>(job.spec.plan().size());
  return result;
}

}  // namespace oneflow
