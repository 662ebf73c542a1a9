#include "tools/job/phases.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "oneflow_core/optimizer_rules.h"
#include "tools/job/field_rules.h"

namespace oneflow {
namespace {

// In the first step of a run nothing is read ahead, and the last one waits until all is stored in tiers.
constexpr int64_t kLeastSteps = 4, kLeastStepsWithTiers = 8;

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

pb::StopRule StopRuleOf(const pb::Stop& said) {
  const pb::Stop stop = WithDefaults(said);
  pb::StopRule rule;
  rule.set_samples(stop.samples());
  rule.set_seconds(stop.seconds());
  rule.set_patience(stop.patience());
  rule.set_least_gain(stop.least_gain());
  rule.set_not_finite(stop.finite());
  return rule;
}

void AddSave(Phases& phases, const std::string& path, const std::string& suffix) {
  if (path.empty()) return;
  pb::SaveWeights& save = *phases.Add()->mutable_save();
  save.set_path(path);
  save.set_suffix(suffix);
}

}  // namespace

pb::CheckpointRule MakeCheckpointRule(const pb::Checkpoint& said) {
  const pb::Checkpoint checkpoint = WithDefaults(said);
  pb::CheckpointRule rule;
  rule.set_path(checkpoint.path());
  rule.set_every(checkpoint.every());
  rule.set_keep(checkpoint.keep());
  rule.set_keep_every(checkpoint.keep_every());
  rule.set_on_stop(checkpoint.on_stop());
  rule.set_best(checkpoint.best());
  return rule;
}

Phases MakePhases(const pb::JobConfig& config, const Program& program, const EvaluationCut& cut) {
  Phases phases;
  AddSave(phases, config.save_initial_weights(), "");
  const bool evaluates = config.has_evaluate() && Find(program, kEvaluate) != nullptr;
  const int64_t steps = Find(program, "train") == nullptr ? 0 : config.train().steps();
  const pb::RunPlan evaluation = EvaluationRun(cut);
  if (steps > 0) {
    pb::TrainLoop& loop = *phases.Add()->mutable_train();
    loop.set_plan("train");
    loop.set_steps(steps);
    loop.set_evaluate_every(config.evaluate().every());
    if (evaluates) *loop.mutable_evaluation() = evaluation;
    *loop.mutable_stop() = StopRuleOf(config.train().stop());
    loop.set_least_steps(config.offload().empty() ? kLeastSteps : kLeastStepsWithTiers);
  } else if (evaluates) {
    *phases.Add()->mutable_run() = evaluation;
  }
  AddSave(phases, config.save_weights(), "");
  AddSave(phases, config.save_gradients(), ".grad");
  AddSave(phases, config.train().average().save_weights(), absl::StrCat("/", kAverageSuffix));
  if (config.has_generate() && Find(program, "generate") != nullptr) {
    *phases.Add()->mutable_run() = MakeRun("generate", config.generate().tokens());
  }
  if (config.has_trace()) phases.Add()->mutable_trace()->set_path(config.trace().file());
  return phases;
}

}  // namespace oneflow
