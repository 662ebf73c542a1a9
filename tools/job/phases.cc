#include "tools/job/phases.h"

#include <algorithm>

#include "actor/data/source.h"

namespace oneflow {
namespace {

const Graph* Find(const Program& program, absl::string_view name) {
  const auto it =
      std::find_if(program.begin(), program.end(), [&](const Graph& graph) { return graph.name() == name; });
  return it == program.end() ? nullptr : &*it;
}

using Phases = google::protobuf::RepeatedPtrField<pb::Phase>;

void AddRun(Phases& phases, const std::string& plan, int64_t first_step, int64_t steps) {
  pb::RunPlan& run = *phases.Add()->mutable_run();
  run.set_plan(plan);
  run.set_first_step(first_step);
  run.set_steps(steps);
}

void AddSave(Phases& phases, const std::string& path, const std::string& suffix) {
  if (path.empty()) return;
  pb::SaveWeights& save = *phases.Add()->mutable_save();
  save.set_path(path);
  save.set_suffix(suffix);
}

}  // namespace

Phases MakePhases(const pb::JobConfig& config, const Program& program, int64_t evaluation_batches) {
  Phases phases;
  AddSave(phases, config.save_initial_weights(), "");
  const bool evaluates = config.has_evaluate() && Find(program, "evaluate") != nullptr;
  const int64_t steps = Find(program, "train") == nullptr ? 0 : config.train().steps();
  const int64_t stride =
      evaluates && config.evaluate().every() > 0 ? config.evaluate().every() : std::max<int64_t>(steps, 1);
  for (int64_t first = 0; first < steps; first += stride) {
    AddRun(phases, "train", first, std::min(stride, steps - first));
    if (evaluates) AddRun(phases, "evaluate", 0, evaluation_batches);
  }
  if (steps == 0 && evaluates) AddRun(phases, "evaluate", 0, evaluation_batches);
  AddSave(phases, config.save_weights(), "");
  AddSave(phases, config.save_gradients(), ".grad");
  if (config.has_generate() && Find(program, "generate") != nullptr)
    AddRun(phases, "generate", 0, config.generate().tokens());
  if (config.has_trace()) phases.Add()->mutable_trace()->set_path(config.trace().file());
  return phases;
}

absl::StatusOr<int64_t> EvaluationBatches(const pb::JobConfig& config, const Program& program) {
  if (config.evaluate().batches() > 0) return config.evaluate().batches();
  const Graph* graph = Find(program, "evaluate");
  if (graph == nullptr || !config.has_evaluate()) return 0;
  for (NodeId id = 0; id < graph->num_nodes(); ++id) {
    const Node& node = graph->node(id);
    if (node.op != "read_data") continue;
    OF_ASSIGN_OR_RETURN(const std::unique_ptr<Source> source, OpenSource(node.attrs));
    const int64_t batch = graph->value(node.outputs[0]).type.shape[0];
    if (source->num_samples() < batch) {
      return absl::InvalidArgumentError(absl::StrCat("evaluate: a batch has ", batch,
                                                     " samples, but the validation data only ", source->num_samples()));
    }
    return source->num_samples() / batch;
  }
  return 1;
}

}  // namespace oneflow
