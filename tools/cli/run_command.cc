// `oneflow run` and `oneflow generate`.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <iostream>

#include "absl/synchronization/mutex.h"
#include "oneflow_core/ops/ops.h"
#include "tools/cli/commands.h"
#include "tools/cli/progress.h"
#include "tools/client.h"
#include "tools/cluster/embedded.h"
#include "tools/process/stop_signals.h"

namespace oneflow {
namespace {

// Turns Ctrl-C into the cancellation of the job, whenever it comes: before the job exists it is remembered.
class Interrupt {
 public:
  Interrupt() : signals_([this](int signal) { OnSignal(signal); }) {}

  bool requested() const { return requested_; }
  // From now on an interrupt cancels this job, or asks it to save what it has and end. `client` must outlive the next
  // Forget().
  void Cancels(Client* client, int64_t job, bool gently) {
    absl::MutexLock lock(&mu_);
    client_ = client;
    job_ = job;
    gently_ = gently;
    if (requested_) Cancel();
  }
  void Forget() {
    absl::MutexLock lock(&mu_);
    client_ = nullptr;
  }

 private:
  void OnSignal(int signal) {
    // A second Ctrl-C does not wait for anyone; the kernel ends our children with us.
    if (requested_.exchange(true)) {
      if (signal == SIGINT) _exit(130);
      return;
    }
    absl::MutexLock lock(&mu_);
    Cancel();
  }
  void Cancel() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (client_ == nullptr) return;
    std::cerr << (gently_ ? "\nsaving a checkpoint, then ending job " : "\ncancelling job ") << job_ << "\n";
    if (const absl::Status status = client_->Cancel(job_, gently_); !status.ok()) {
      std::cerr << status.message() << "\n";
    }
  }

  absl::Mutex mu_;
  std::atomic<bool> requested_ = false;
  Client* client_ ABSL_GUARDED_BY(mu_) = nullptr;
  int64_t job_ ABSL_GUARDED_BY(mu_) = 0;
  bool gently_ ABSL_GUARDED_BY(mu_) = false;
  StopSignals signals_;  // last: it calls us as soon as it exists
};

EmbeddedOptions ClusterOf(const pb::JobSpec& spec) {
  EmbeddedOptions options;
  options.daemons = spec.processes();
  options.devices_per_daemon = spec.devices_per_process();
  options.device = spec.device();
  options.cores_per_daemon = spec.cores_per_process();
  options.replacements = std::max(spec.restart().attempts() - 1, 0);  // a job that is tried again needs all of them
  return options;
}

// Submits the job and follows it to its end; its last state.
absl::StatusOr<pb::StateChange> Follow(Client& client, const pb::JobSpec& spec, Interrupt& interrupt,
                                       Progress& progress) {
  OF_ASSIGN_OR_RETURN(const int64_t id, client.Submit(spec));
  interrupt.Cancels(&client, id, spec.has_checkpoint() && spec.checkpoint().on_stop());
  pb::StateChange last;
  const absl::Status watched = client.Watch(id, 0, [&](const pb::JobEvent& event) {
    if (event.has_state()) last = event.state();
    progress.OnEvent(event);
    return true;
  });
  interrupt.Forget();
  progress.Finish();
  OF_RETURN_IF_ERROR(watched);
  return last;
}

// All of `oneflow run` but the end of the cluster, which is left to the caller.
absl::Status Run(const RunArguments& arguments, Interrupt& interrupt, std::unique_ptr<EmbeddedCluster>& cluster) {
  const OpRegistry ops = StandardOps();
  OF_ASSIGN_OR_RETURN(SourcedConfig config, arguments.job.Load());
  OF_ASSIGN_OR_RETURN(Job job, MakeJob(std::move(config), arguments.kind, ops));
  OF_ASSIGN_OR_RETURN(const pb::PlanSet plan, CompileJob(job, ops));
  OF_RETURN_IF_ERROR(ResumeAsAsked(arguments.job, job));
  PrintWarnings(job);

  std::ofstream metrics;
  Progress::Options options;
  options.terminal = isatty(STDOUT_FILENO) != 0;
  options.print = [](const std::string& text) { std::cout << text << std::flush; };
  options.prompt = job.config.config.generate().prompt();
  if (!arguments.metrics.empty()) {
    metrics.open(arguments.metrics);
    if (!metrics)
      return absl::InvalidArgumentError(absl::StrCat("--metrics ", arguments.metrics, ": cannot be written"));
    options.metrics_line = [&metrics](const std::string& line) { metrics << line << std::endl; };
  }
  Progress progress(job.spec, plan, std::move(options));

  SchedulerArguments scheduler = arguments.scheduler;
  if (scheduler.address.empty()) {
    OF_ASSIGN_OR_RETURN(cluster, EmbeddedCluster::Start(ClusterOf(job.spec)));
    scheduler = {.address = cluster->address()};
  }
  if (interrupt.requested()) return absl::CancelledError("interrupted before the job was submitted");
  // An embedded scheduler that is lost does not come back.
  const absl::Duration patience = cluster == nullptr ? kSchedulerPatience : absl::ZeroDuration();
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client,
                      cluster == nullptr ? ConnectTo(scheduler, patience) : Client::Connect(scheduler.address));
  OF_ASSIGN_OR_RETURN(const pb::StateChange last, Follow(*client, job.spec, interrupt, progress));
  if (metrics.is_open()) {
    metrics.close();
    if (!metrics)
      return absl::UnavailableError(absl::StrCat("--metrics ", arguments.metrics, ": could not be written to the end"));
  }
  return FinalStatus(last);
}

}  // namespace

absl::Status FinalStatus(const pb::StateChange& last) {
  switch (last.state()) {
    case pb::FINISHED:
      return absl::OkStatus();
    case pb::CANCELLED:
      return absl::CancelledError("the job was cancelled");
    default:
      return absl::AbortedError(last.message());
  }
}

absl::StatusOr<SourcedConfig> JobArguments::Load() const {
  std::vector<std::string> overrides = sets;
  overrides.insert(overrides.end(), fields.begin(), fields.end());
  return LoadConfig(config, overrides);
}

int RunCommand(const RunArguments& arguments) {
  Interrupt interrupt;  // until the cluster has stopped: a second Ctrl-C does not wait for that
  std::unique_ptr<EmbeddedCluster> cluster;
  return Report(Run(arguments, interrupt, cluster));  // the user reads why before the cluster stops
}

}  // namespace oneflow
