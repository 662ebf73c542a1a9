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

pb::RunPlan MakeRun(const std::string& plan, int64_t steps) {
  pb::RunPlan run;
  run.set_plan(plan);
  run.set_steps(steps);
  return run;
}

pb::StopRule StopRuleOf(const pb::Stop& stop) {
  pb::StopRule rule;
  rule.set_samples(stop.samples());
  rule.set_seconds(stop.seconds());
  rule.set_patience(stop.patience());
  rule.set_least_gain(stop.least_gain());
  rule.set_not_finite(!stop.has_finite() || stop.finite());
  return rule;
}

void AddSave(Phases& phases, const std::string& path, const std::string& suffix) {
  if (path.empty()) return;
  pb::SaveWeights& save = *phases.Add()->mutable_save();
  save.set_path(path);
  save.set_suffix(suffix);
}

}  // namespace

pb::CheckpointRule MakeCheckpointRule(const pb::Checkpoint& checkpoint) {
  pb::CheckpointRule rule;
  rule.set_path(checkpoint.path());
  rule.set_every(checkpoint.every());
  rule.set_keep(checkpoint.has_keep() ? checkpoint.keep() : 3);
  rule.set_keep_every(checkpoint.keep_every());
  rule.set_on_stop(!checkpoint.has_on_stop() || checkpoint.on_stop());
  return rule;
}

Phases MakePhases(const pb::JobConfig& config, const Program& program, int64_t evaluation_batches) {
  Phases phases;
  AddSave(phases, config.save_initial_weights(), "");
  const bool evaluates = config.has_evaluate() && Find(program, "evaluate") != nullptr;
  const int64_t steps = Find(program, "train") == nullptr ? 0 : config.train().steps();
  const pb::RunPlan evaluation = MakeRun("evaluate", evaluation_batches);
  if (steps > 0) {
    pb::TrainLoop& loop = *phases.Add()->mutable_train();
    loop.set_plan("train");
    loop.set_steps(steps);
    loop.set_evaluate_every(config.evaluate().every());
    if (evaluates) *loop.mutable_evaluation() = evaluation;
    *loop.mutable_stop() = StopRuleOf(config.train().stop());
  } else if (evaluates) {
    *phases.Add()->mutable_run() = evaluation;
  }
  AddSave(phases, config.save_weights(), "");
  AddSave(phases, config.save_gradients(), ".grad");
  if (config.has_generate() && Find(program, "generate") != nullptr) {
    *phases.Add()->mutable_run() = MakeRun("generate", config.generate().tokens());
  }
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
