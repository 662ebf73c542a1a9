#include "tools/bench/run_job.h"

#include <algorithm>
#include <vector>

#include "absl/strings/substitute.h"
#include "tools/control/cluster/run_to_end.h"

namespace oneflow {

void AddMeasuredPhases(int warmup, int steps, pb::JobSpec& spec) {
  for (const bool measured : {false, true}) {
    pb::RunPlan& run = *spec.add_phases()->mutable_run();
    run.set_plan("train");
    run.set_first_step(measured ? warmup : 0);
    run.set_steps(measured ? steps : warmup);
  }
}

absl::StatusOr<Round> RunJob(pb::JobSpec spec, bool profile, const std::atomic<bool>& stop) {
  spec.set_profile(profile);
  OF_ASSIGN_OR_RETURN(const std::vector<pb::JobEvent> events, RunToEnd(spec, stop));
  return RoundFromEvents(events, spec);
}

std::string TextOf(const OwnGpt& gpt) {
  return absl::Substitute(R"(
name: "$0"
model { $4 { $1 } }
data { text { path: "" } }
train {
  batch_size: $2
  optimizer { adamw { weight_decay: 0.1 } clip_norm: 1 }
  schedule { learning_rate: $3 }
}
)",
                          gpt.name, gpt.model, gpt.batch, gpt.learning_rate, gpt.kind);
}

absl::StatusOr<SourcedConfig> OwnConfig(const std::string& text, const std::string& name, int processes,
                                        const BenchContext& context) {
  OF_ASSIGN_OR_RETURN(SourcedConfig config, ParseConfig(text, name));
  config.config.mutable_data()->mutable_text()->set_path(context.sample_text);
  config.config.mutable_cluster()->set_cores_per_process(std::max(1, context.cores / processes));
  for (const std::string& assignment : context.sets) OF_RETURN_IF_ERROR(ApplyOverride(assignment, config));
  config.config.mutable_train()->set_steps(context.warmup + context.steps);
  return config;
}

absl::StatusOr<Round> RunConfig(const SourcedConfig& config, const BenchContext& context) {
  OF_ASSIGN_OR_RETURN(Job job, MakeJob(config, JobKind::kTrain, context.ops));
  OF_RETURN_IF_ERROR(CompleteSpec(job, context.ops));
  job.spec.clear_phases();
  AddMeasuredPhases(context.warmup, context.steps, job.spec);
  return RunJob(job.spec, /*profile=*/false, context.stop);
}

}  // namespace oneflow
