// `oneflow submit`, `jobs`, `jobs diagnose`, `logs` and `cancel`: what a user asks of a running scheduler.
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "oneflow_core/ops/ops.h"
#include "tools/cli/commands.h"
#include "tools/client.h"

namespace oneflow {

absl::Status SubmitCommand(const JobArguments& arguments, const std::string& scheduler) {
  const OpRegistry ops = StandardOps();
  OF_ASSIGN_OR_RETURN(SourcedConfig config, arguments.Load());
  OF_ASSIGN_OR_RETURN(Job job, MakeJob(std::move(config), JobKind::kTrain, ops));
  OF_RETURN_IF_ERROR(CompileJob(job, ops).status());
  OF_RETURN_IF_ERROR(ResumeAsAsked(arguments, job));
  PrintWarnings(job);
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, Client::Connect(scheduler));
  OF_ASSIGN_OR_RETURN(const int64_t id, client->Submit(job.spec));
  std::cout << "job " << id << "\n";
  return absl::OkStatus();
}

namespace {

// One line of a table: the last output of a dead worker may be twenty.
std::string FirstLine(const pb::JobStatus& job) {
  const absl::string_view message = job.message();
  const size_t end = message.find('\n');
  if (end == message.npos) return job.message();
  return absl::StrCat(message.substr(0, end), " (more: oneflow logs ", job.job(), ")");
}

}  // namespace

absl::Status JobsCommand(const std::string& scheduler) {
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, Client::Connect(scheduler));
  OF_ASSIGN_OR_RETURN(const std::vector<pb::JobStatus> jobs, client->List());
  std::cout << absl::StrFormat("%5s  %-24s %-10s %-12s %-19s  %s\n", "job", "name", "state", "size", "submitted",
                               "message");
  for (const pb::JobStatus& job : jobs) {
    const std::string size = absl::StrCat(job.processes(), " x ", job.devices_per_process());
    const std::string submitted =
        absl::FormatTime("%Y-%m-%d %H:%M:%S", absl::FromUnixMicros(job.submitted_us()), absl::LocalTimeZone());
    std::cout << absl::StrFormat("%5d  %-24s %-10s %-12s %-19s  %s\n", job.job(), job.name(),
                                 pb::JobState_Name(job.state()), size, submitted, FirstLine(job));
  }
  return absl::OkStatus();
}

absl::Status DiagnoseCommand(const std::string& scheduler, int64_t job) {
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, Client::Connect(scheduler));
  OF_ASSIGN_OR_RETURN(const std::string text, client->Diagnose(job));
  std::cout << text;
  return absl::OkStatus();
}

absl::Status LogsCommand(const std::string& scheduler, int64_t job) {
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, Client::Connect(scheduler));
  OF_ASSIGN_OR_RETURN(const std::vector<pb::WorkerLog> logs, client->Logs(job));
  for (const pb::WorkerLog& log : logs) {
    std::cout << "== worker " << log.process() << " on daemon '" << log.daemon() << "'\n" << log.text();
    if (!log.text().empty() && log.text().back() != '\n') std::cout << "\n";
  }
  return absl::OkStatus();
}

absl::Status CancelCommand(const std::string& scheduler, int64_t job, bool gently) {
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, Client::Connect(scheduler));
  return client->Cancel(job, gently);
}

}  // namespace oneflow
