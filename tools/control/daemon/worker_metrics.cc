#include "tools/control/daemon/worker_metrics.h"

#include "absl/strings/str_cat.h"
#include "compiler/lower/plan_memory.h"
#include "proto/plan.pb.h"
#include "tools/job/visible_text.h"

namespace oneflow {
namespace {

// Of all ranks of the process. Nothing of a plan that cannot be read: its worker says so.
std::map<std::string, int64_t> MemoryOf(const pb::JobSpec& spec, int process) {
  std::map<std::string, int64_t> memory;
  pb::PlanSet plan;
  if (!plan.ParseFromString(spec.plan())) return memory;
  for (int c = 0; c < plan.classes_size(); ++c) {
    for (const int rank : plan.classes(c).ranks()) {
      if (rank / spec.devices_per_process() != process) continue;
      for (const auto& [what, bytes] : MemoryAtPeak(plan, c)) memory[what] += bytes;
    }
  }
  return memory;
}

void WriteStats(const pb::WorkerStats& stats, const MetricLabels& labels, Families& families) {
  const auto with = [&labels](const char* label, const char* value) {
    MetricLabels more = labels;
    more.emplace_back(label, value);
    return more;
  };
  families.Counter("oneflow_worker_cpu_seconds_total", "Processor time of the process", labels, stats.cpu_seconds());
  const char* const kRun = "oneflow_worker_rank_seconds_total";
  const char* const kRunHelp = "Time of ranks in runs: all of it, in kernels, in boxings, asleep for want of messages";
  families.Counter(kRun, kRunHelp, with("in", "run"), stats.run_seconds());
  families.Counter(kRun, kRunHelp, with("in", "kernels"), stats.kernel_seconds());
  families.Counter(kRun, kRunHelp, with("in", "boxings"), stats.communication_seconds());
  families.Counter(kRun, kRunHelp, with("in", "sleep"), stats.idle_seconds());
  families.Counter("oneflow_worker_acts_total", "Acts of actors", labels, static_cast<double>(stats.acts()));
  families.Counter("oneflow_worker_boxed_bytes_total",
                   "Bytes of other ranks' memory, here or elsewhere, read by boxing", labels,
                   static_cast<double>(stats.bytes_moved()));
  families.Counter("oneflow_worker_network_bytes_total", "Bytes sent over the network to ranks of other hosts", labels,
                   static_cast<double>(stats.bytes_sent()));
  families.Gauge("oneflow_worker_peak_bytes", "The most memory that the process had resident", labels,
                 static_cast<double>(stats.peak_bytes()));
}

}  // namespace

void WorkerMetrics::OnStart(const pb::StartWorker& start) {
  Worker worker{.name = VisibleText(start.spec().name()), .memory = MemoryOf(start.spec(), start.process())};
  absl::MutexLock lock(&mu_);
  workers_[{start.job(), start.process()}] = std::move(worker);
}

void WorkerMetrics::OnStats(int64_t job, int process, const pb::WorkerStats& stats) {
  absl::MutexLock lock(&mu_);
  if (const auto found = workers_.find({job, process}); found != workers_.end()) found->second.stats = stats;
}

void WorkerMetrics::OnExit(int64_t job, int process) {
  absl::MutexLock lock(&mu_);
  workers_.erase({job, process});
  ++exits_;
}

void WorkerMetrics::Write(Families& families) {
  absl::MutexLock lock(&mu_);
  families.Gauge("oneflow_daemon_workers", "Workers that run", {}, static_cast<double>(workers_.size()));
  families.Counter("oneflow_daemon_worker_exits_total", "Workers that have exited", {}, static_cast<double>(exits_));
  for (const auto& [key, worker] : workers_) {
    const MetricLabels labels = {
        {"job", absl::StrCat(key.first)}, {"name", worker.name}, {"process", absl::StrCat(key.second)}};
    for (const auto& [what, bytes] : worker.memory) {
      MetricLabels more = labels;
      more.emplace_back("for", what);
      families.Gauge("oneflow_worker_plan_bytes", "Memory that its plan gives the worker's ranks, when most is in use",
                     more, static_cast<double>(bytes));
    }
    WriteStats(worker.stats, labels, families);
  }
}

}  // namespace oneflow
