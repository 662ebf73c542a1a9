#include "tools/cli/follow_job.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/cli/commands.h"
#include "tools/cli/progress.h"

namespace oneflow {
namespace {

absl::StatusOr<std::ofstream> OpenMetrics(const std::string& path) {
  std::ofstream metrics;
  if (path.empty()) return metrics;
  metrics.open(path);
  if (metrics) return metrics;
  return absl::InvalidArgumentError(absl::StrCat("--metrics ", path, ": cannot be written"));
}

// Submits the job and follows it to its end; its last state.
absl::StatusOr<pb::StateChange> Watch(Client& client, const pb::JobSpec& spec, Interrupt& interrupt,
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

}  // namespace

Interrupt::Interrupt() : signals_([this](int signal) { OnSignal(signal); }) {}

void Interrupt::Cancels(Client* client, int64_t job, bool gently) {
  absl::MutexLock lock(&mu_);
  client_ = client;
  job_ = job;
  gently_ = gently;
  if (requested_) Cancel();
}

void Interrupt::Forget() {
  absl::MutexLock lock(&mu_);
  client_ = nullptr;
}

void Interrupt::OnSignal(int signal) {
  // A second Ctrl-C does not wait for anyone; the kernel ends our children with us.
  if (requested_.exchange(true)) {
    if (signal == SIGINT) _exit(130);
    return;
  }
  absl::MutexLock lock(&mu_);
  Cancel();
}

void Interrupt::Cancel() {
  if (client_ == nullptr) return;
  std::cerr << (gently_ ? "\nsaving a checkpoint, then ending job " : "\ncancelling job ") << job_ << "\n";
  if (const absl::Status status = client_->Cancel(job_, gently_); !status.ok()) {
    std::cerr << status.message() << "\n";
  }
}

EmbeddedOptions ClusterOf(const pb::JobSpec& spec) {
  EmbeddedOptions options;
  options.daemons = spec.processes();
  options.devices_per_daemon = spec.devices_per_process();
  options.device = spec.device();
  options.cores_per_daemon = spec.cores_per_process();
  options.replacements = std::max(spec.restart().attempts() - 1, 0);  // a job that is tried again needs all of them
  return options;
}

absl::Status FollowJob(const CompiledJob& compiled, const Following& following, Interrupt& interrupt) {
  OF_ASSIGN_OR_RETURN(std::ofstream metrics, OpenMetrics(following.metrics));
  Progress::Options options;
  options.terminal = isatty(STDOUT_FILENO) != 0;
  options.print = [](const std::string& text) { std::cout << text << std::flush; };
  options.prompt = compiled.job.config.config.generate().prompt();
  if (metrics.is_open()) options.metrics_line = [&metrics](const std::string& line) { metrics << line << std::endl; };
  Progress progress(compiled.job.spec, compiled.plan, std::move(options));

  if (interrupt.requested()) return absl::CancelledError("interrupted before the job was submitted");
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client,
                      Client::Connect(following.scheduler, absl::Seconds(5), following.patience));
  OF_ASSIGN_OR_RETURN(const pb::StateChange last, Watch(*client, compiled.job.spec, interrupt, progress));
  if (metrics.is_open()) metrics.close();
  if (!metrics) {
    return absl::UnavailableError(absl::StrCat("--metrics ", following.metrics, ": could not be written to the end"));
  }
  return FinalStatus(last);
}

}  // namespace oneflow
