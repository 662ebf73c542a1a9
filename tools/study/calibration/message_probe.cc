#include "tools/study/calibration/message_probe.h"

#include <algorithm>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "actor/trace/chrome_trace.h"
#include "tools/control/cluster/run_to_end.h"
#include "tools/job/job.h"
#include "tools/study/calibration/sample_text.h"

namespace oneflow {
namespace {

// Large enough that threads fall asleep between messages, small enough that there are many.
constexpr char kProbe[] = R"(
name: "probe"
model { gpt { layers: 2 width: 64 heads: 2 context: 64 } }
data { text { path: "" } }
train {
  steps: 60
  batch_size: 8
  optimizer { adamw {} }
  schedule { learning_rate: 1e-3 }
}
)";
constexpr size_t kTextBytes = 1 << 16;

}  // namespace

absl::StatusOr<MeasuredCosts::AroundActs> ProbeMessages(const pb::JobSpec& like, const std::string& dir,
                                                        const OpRegistry& ops, const std::atomic<bool>& stop) {
  OF_ASSIGN_OR_RETURN(SourcedConfig config, ParseConfig(kProbe, "(probe)"));
  const std::string text = dir + "/probe.txt", file = dir + "/probe.json";
  std::ofstream(text, std::ios::binary) << SampleText(kTextBytes);
  const int processes = std::min(2, like.processes()), devices = std::min(2, like.devices_per_process());
  config.config.mutable_data()->mutable_text()->set_path(text);
  config.config.mutable_mesh()->set_dp(processes * devices);
  config.config.mutable_trace()->set_file(file);
  pb::Cluster& cluster = *config.config.mutable_cluster();
  cluster.set_processes(processes);
  cluster.set_device(like.device());
  cluster.set_cores_per_process(std::max(1, like.cores_per_process() / like.devices_per_process() * devices));
  OF_ASSIGN_OR_RETURN(Job job, MakeJob(std::move(config), JobKind::kTrain, ops));
  OF_ASSIGN_OR_RETURN(const pb::Program program, CompileToProgram(job, ops));
  OF_RETURN_IF_ERROR(RunToEnd(job.spec, stop).status());
  OF_ASSIGN_OR_RETURN(const Trace trace, ReadChromeTrace(file));
  OF_ASSIGN_OR_RETURN(const TraceSteps steps, FindSteps(trace, "train"));
  OF_ASSIGN_OR_RETURN(const MeasuredCosts costs, MeasuredCosts::Of(trace, steps, program));
  return costs.around_acts();
}

}  // namespace oneflow
