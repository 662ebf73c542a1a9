// `oneflow submit`, `jobs`, `jobs diagnose`, `watch`, `logs`, `cancel`, `retry`, `nodes` and `drain`: what a user
// asks of a running scheduler.
#include <unistd.h>

#include <iostream>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "oneflow_core/ops/ops.h"
#include "tools/cli/commands.h"
#include "tools/cli/job_tables.h"
#include "tools/cli/progress.h"
#include "tools/control/client.h"
#include "tools/control/security/certificates.h"
#include "tools/control/security/tokens.h"
#include "tools/control/worker/train_loop.h"

namespace oneflow {

absl::StatusOr<SchedulerAddress> AddressOf(const SchedulerArguments& scheduler) {
  OF_ASSIGN_OR_RETURN(TlsIdentity identity, LoadIdentityIfAny(scheduler.tls));
  OF_ASSIGN_OR_RETURN(std::string token, OwnToken());
  return SchedulerAddress(scheduler.address, std::move(identity), std::move(token));
}

absl::StatusOr<std::unique_ptr<Client>> ConnectTo(const SchedulerArguments& scheduler, absl::Duration patience) {
  OF_ASSIGN_OR_RETURN(const SchedulerAddress address, AddressOf(scheduler));
  return Client::Connect(address, absl::Seconds(5), patience);
}

absl::Status SubmitCommand(const JobArguments& arguments, const SchedulerArguments& scheduler, int priority) {
  const OpRegistry ops = StandardOps();
  OF_ASSIGN_OR_RETURN(SourcedConfig config, arguments.Load());
  OF_ASSIGN_OR_RETURN(Job job, MakeJob(std::move(config), JobKind::kTrain, ops));
  OF_RETURN_IF_ERROR(CompileJob(job, ops).status());
  OF_RETURN_IF_ERROR(CheckWork(job));
  OF_RETURN_IF_ERROR(ResumeAsAsked(arguments, job));
  PrintWarnings(job);
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, ConnectTo(scheduler));
  OF_ASSIGN_OR_RETURN(const int64_t id, client->Submit(job.spec, priority));
  std::cout << "job " << id << "\n";
  return absl::OkStatus();
}

namespace {

constexpr absl::Duration kLookAgain = absl::Seconds(1);

bool Terminal() { return isatty(STDOUT_FILENO) != 0; }

std::string JobsAsAsked(const std::vector<pb::JobStatus>& jobs, bool json) {
  return json ? JobsJson(jobs) : JobsTable(jobs, Terminal());
}

// On a terminal in place; otherwise whenever it has changed.
void Show(const std::string& text, std::string& shown) {
  if (Terminal()) {
    std::cout << "\x1b[H\x1b[J" << text << std::flush;
  } else if (text != shown) {
    std::cout << text << std::flush;
  }
  shown = text;
}

// Prints what workers write, as it comes; a line before it says whose it is, where that is another's than before.
class Follower {
 public:
  Follower(Client& client, int64_t job, bool alone) : client_(client), job_(job), alone_(alone) {}

  // Whether this worker had written something since.
  absl::StatusOr<bool> Poll(int process) {
    int64_t& offset = offsets_.try_emplace(process, 0).first->second;
    OF_ASSIGN_OR_RETURN(const pb::WorkerLog log, client_.LogFrom(job_, process, offset));
    if (log.next_offset() <= offset) return false;
    offset = log.next_offset();
    if (!alone_ && last_ != process) {
      std::cout << "== worker " << process << " on daemon '" << log.daemon() << "'\n";
    }
    last_ = process;
    std::cout << log.text() << std::flush;
    return true;
  }

 private:
  Client& client_;
  const int64_t job_;
  const bool alone_;
  int last_ = -1;
  std::map<int, int64_t> offsets_;  // of what is printed, by process
};

// Until the job has ended and all is printed. `process`: negative for all.
absl::Status FollowLogs(Client& client, const pb::JobStatus& job, int process) {
  Follower follower(client, job.job(), process >= 0);
  while (true) {
    OF_ASSIGN_OR_RETURN(const pb::DescribeReply about, client.Describe(job.job()));
    bool more = false;
    for (const pb::WorkerPlace& worker : about.workers()) {
      if (process >= 0 && worker.process() != process) continue;
      OF_ASSIGN_OR_RETURN(const bool wrote, follower.Poll(worker.process()));
      more |= wrote;
    }
    if (!more && about.status().state() >= pb::FINISHED) return absl::OkStatus();
    if (!more) absl::SleepFor(kLookAgain);
  }
}

void Print(const pb::WorkerLog& log) {
  std::cout << "== worker " << log.process() << " on daemon '" << log.daemon() << "'\n" << log.text();
  if (!log.text().empty() && log.text().back() != '\n') std::cout << "\n";
}

// The worker that has a rank of the job; -1 for all workers if `rank` is.
absl::StatusOr<int> ProcessOf(const pb::JobStatus& job, int rank) {
  if (rank < 0) return -1;
  const int ranks = job.processes() * job.devices_per_process();
  if (rank < ranks) return rank / job.devices_per_process();
  return absl::InvalidArgumentError(absl::StrCat("--rank is ", rank, "; job ", job.job(), " has ", ranks, " ranks"));
}

}  // namespace

absl::Status JobsCommand(const SchedulerArguments& scheduler, bool json, bool again_and_again) {
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, ConnectTo(scheduler));
  std::string shown;
  do {
    OF_ASSIGN_OR_RETURN(const std::vector<pb::JobStatus> jobs, client->List());
    if (!again_and_again) {
      std::cout << JobsAsAsked(jobs, json);
      return absl::OkStatus();
    }
    Show(JobsAsAsked(jobs, json), shown);
    absl::SleepFor(kLookAgain);
  } while (true);
}

absl::Status DescribeCommand(const SchedulerArguments& scheduler, int64_t job) {
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, ConnectTo(scheduler));
  OF_ASSIGN_OR_RETURN(const pb::DescribeReply about, client->Describe(job));
  std::string ended;
  if (about.status().state() == pb::FINISHED && about.has_spec()) {
    OF_RETURN_IF_ERROR(client->Watch(job, 0, [&ended](const pb::JobEvent& event) {
      if (absl::StartsWith(event.notice().text(), kTrainingEnds)) ended = event.notice().text();
      return true;
    }));
  }
  std::cout << JobText(about, ended);
  return absl::OkStatus();
}

absl::Status DiagnoseCommand(const SchedulerArguments& scheduler, int64_t job) {
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, ConnectTo(scheduler));
  OF_ASSIGN_OR_RETURN(const std::string text, client->Diagnose(job));
  std::cout << text;
  return absl::OkStatus();
}

absl::Status WatchCommand(const SchedulerArguments& scheduler, int64_t job) {
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, ConnectTo(scheduler, kSchedulerPatience));
  OF_ASSIGN_OR_RETURN(const pb::DescribeReply about, client->Describe(job, /*with_plan=*/true));
  pb::PlanSet plan;
  if (!about.has_spec() || !plan.ParseFromString(about.spec().plan())) {
    return absl::FailedPreconditionError(absl::StrCat("job ", job, ": its events and plan are no longer kept"));
  }
  Progress::Options options;
  options.terminal = Terminal();
  options.print = [](const std::string& text) { std::cout << text << std::flush; };
  Progress progress(about.spec(), plan, std::move(options));
  pb::StateChange last;
  const absl::Status watched = client->Watch(job, 0, [&](const pb::JobEvent& event) {
    if (event.has_state()) last = event.state();
    progress.OnEvent(event);
    return true;
  });
  progress.Finish();
  OF_RETURN_IF_ERROR(watched);
  return FinalStatus(last);
}

absl::Status LogsCommand(const SchedulerArguments& scheduler, const LogsArguments& arguments) {
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, ConnectTo(scheduler));
  OF_ASSIGN_OR_RETURN(const pb::DescribeReply about, client->Describe(arguments.job));
  OF_ASSIGN_OR_RETURN(const int process, ProcessOf(about.status(), arguments.rank));
  if (arguments.follow) return FollowLogs(*client, about.status(), process);
  OF_ASSIGN_OR_RETURN(const std::vector<pb::WorkerLog> logs, client->Logs(arguments.job, process));
  for (const pb::WorkerLog& log : logs) Print(log);
  return absl::OkStatus();
}

absl::Status CancelCommand(const SchedulerArguments& scheduler, int64_t job, bool gently) {
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, ConnectTo(scheduler));
  return client->Cancel(job, gently);
}

absl::Status RetryCommand(const SchedulerArguments& scheduler, int64_t job) {
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, ConnectTo(scheduler));
  return client->Retry(job);
}

absl::Status NodesCommand(const SchedulerArguments& scheduler) {
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, ConnectTo(scheduler));
  OF_ASSIGN_OR_RETURN(const std::vector<pb::Node> nodes, client->Nodes());
  std::cout << NodesTable(nodes);
  return absl::OkStatus();
}

absl::Status DrainCommand(const SchedulerArguments& scheduler, const std::string& node, bool undo) {
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, ConnectTo(scheduler));
  return client->Drain(node, undo);
}

}  // namespace oneflow
