#include "tools/bench/overlap.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "tools/bench/run_job.h"
#include "tools/job/job.h"

namespace oneflow {
namespace {

constexpr int kRanks = 2;
constexpr double kMsPerMb = 1;
constexpr char kConfig[] = R"(
name: "overlap"
model { gpt { layers: 4 width: 384 heads: 6 context: 128 } }
data { text { path: "" } }
mesh { dp: 2 }
cluster { processes: 2 }
train {
  steps: 2
  batch_size: 8
  optimizer { adamw { weight_decay: 0.1 } }
  schedule { learning_rate: 1e-3 }
}
)";

absl::StatusOr<Round> Measure(const SourcedConfig& config, int warmup, int steps, const OpRegistry& ops,
                              const std::atomic<bool>& stop) {
  OF_ASSIGN_OR_RETURN(Job job, MakeJob(config, JobKind::kTrain, ops));
  OF_RETURN_IF_ERROR(CompileJob(job, ops).status());
  job.spec.clear_phases();
  AddMeasuredPhases(warmup, steps, job.spec);
  return RunJob(job.spec, /*profile=*/false, stop);
}

Summary Over(const std::vector<OverlapRound>& rounds, double (OverlapRound::*value)() const, double unit) {
  std::vector<double> values;
  for (const OverlapRound& round : rounds) values.push_back(unit * (round.*value)());
  return Summarize(values);
}

}  // namespace

double OverlapRound::link_seconds() const {
  return (with.counters.communication_seconds - without.counters.communication_seconds) / kRanks;
}
double OverlapRound::exposed_seconds() const {
  return (with.counters.idle_seconds - without.counters.idle_seconds) / kRanks;
}

absl::StatusOr<OverlapRound> MeasureOverlap(const std::vector<std::string>& sets, int warmup, int steps,
                                            const OpRegistry& ops, const std::atomic<bool>& stop) {
  OF_ASSIGN_OR_RETURN(SourcedConfig config, ParseConfig(kConfig, "(overlap)"));
  for (const std::string& assignment : sets) OF_RETURN_IF_ERROR(ApplyOverride(assignment, config));
  config.config.mutable_train()->set_steps(warmup + steps);
  OverlapRound round;
  OF_ASSIGN_OR_RETURN(round.without, Measure(config, warmup, steps, ops, stop));
  config.config.mutable_cluster()->set_emulated_ms_per_mb(kMsPerMb);
  OF_ASSIGN_OR_RETURN(round.with, Measure(config, warmup, steps, ops, stop));
  return round;
}

std::string OverlapTable(const std::vector<OverlapRound>& rounds) {
  std::vector<double> without, with;
  for (const OverlapRound& round : rounds) {
    without.push_back(1e3 * round.without.step_seconds);
    with.push_back(1e3 * round.with.step_seconds);
  }
  const Summary hidden = Over(rounds, &OverlapRound::hidden, 100);
  return absl::StrFormat("overlap: dp2 on two processes, a link of %g ms per MB beside none\n", kMsPerMb) +
         absl::StrFormat("  step without link %8.1f ms, with it %8.1f ms\n", Summarize(without).median,
                         Summarize(with).median) +
         absl::StrFormat("  on the link %8.1f ms of a step, of which %8.1f ms are waited for\n",
                         Over(rounds, &OverlapRound::link_seconds, 1e3).median,
                         Over(rounds, &OverlapRound::exposed_seconds, 1e3).median) +
         absl::StrFormat("  hidden %5.1f%% (%.1f..%.1f)\n", hidden.median, hidden.least, hidden.most);
}

}  // namespace oneflow
