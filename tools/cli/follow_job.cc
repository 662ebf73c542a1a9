#include "tools/cli/follow_job.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iostream>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/cli/metrics_file.h"
#include "tools/cli/progress.h"
#include "tools/job/outputs.h"

namespace oneflow {
namespace {

absl::Status CheckMetrics(const std::string& path, const SourcedConfig& config) {
  OF_RETURN_IF_ERROR(MetricsFile::Check(path));
  std::vector<NamedPath> outputs = OutputsOf(config);
  outputs.push_back({"--metrics", path});
  return CheckApart(outputs, InputsOf(config));
}

// False if nobody reads it, now or ever again. What a disk does not take is lost: training is worth more.
bool Print(absl::string_view text) {
  std::cout.flush();
  while (!text.empty()) {
    const ssize_t wrote = write(STDOUT_FILENO, text.data(), text.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return errno != EPIPE;
    text.remove_prefix(static_cast<size_t>(wrote));
  }
  return true;
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

Interrupt::Interrupt()
    : signals_([this](int signal) { OnSignal(signal); }, SignalSender::kAnyone, [this] { Save(); }) {}

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

void Interrupt::Save() {
  absl::MutexLock lock(&mu_);
  if (requested_) return;  // it saves and ends
  const absl::Status asked =
      client_ == nullptr ? absl::FailedPreconditionError("no job runs yet") : client_->Save(job_);
  std::cerr << (asked.ok() ? absl::StrCat("saving a checkpoint of job ", job_, ", which goes on")
                           : absl::StrCat("nothing is saved: ", asked.message()))
            << std::endl;
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
  options.parent_only = true;  // a batch system's signals are for us, who have something to save
  options.daemons = spec.processes();
  options.devices_per_daemon = spec.devices_per_process();
  options.device = spec.device();
  options.cores_per_daemon = spec.cores_per_process();
  options.replacements = std::max(spec.restart().attempts() - 1, 0);  // a job that is tried again needs all of them
  return options;
}

absl::Status FollowJob(const CompiledJob& compiled, const Following& following, Interrupt& interrupt) {
  const pb::JobSpec& spec = compiled.job.spec;
  std::optional<MetricsFile> metrics;
  if (!following.metrics.empty()) {
    OF_RETURN_IF_ERROR(CheckMetrics(following.metrics, compiled.job.config));
    metrics.emplace(following.metrics, spec.resume() || !spec.resume_from().empty(),
                    [](const std::string& text) { std::cerr << text << std::endl; });
  }
  Progress::Options options;
  options.terminal = isatty(STDOUT_FILENO) != 0;
  options.print = [&interrupt](const std::string& text) {
    if (!Print(text)) interrupt.Stop();
  };
  options.prompt = compiled.job.config.config.generate().prompt();
  if (metrics) options.metrics_line = [&metrics](const std::string& line) { metrics->Add(line); };
  Progress progress(spec, compiled.plan, std::move(options));

  if (interrupt.requested()) return absl::CancelledError("interrupted before the job was submitted");
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client,
                      Client::Connect(following.scheduler, absl::Seconds(5), following.patience));
  OF_ASSIGN_OR_RETURN(const pb::StateChange last, Watch(*client, spec, interrupt, progress));
  if (metrics) OF_RETURN_IF_ERROR(metrics->Finish(last.state() == pb::FINISHED));
  return FinalStatus(last);
}

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

}  // namespace oneflow
