// `oneflow submit`, `jobs`, `jobs diagnose`, `watch`, `logs`, `cancel`, `retry`, `nodes` and `drain`: what a user
// asks of a running scheduler.
#include <unistd.h>

#include <iostream>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tools/cli/commands.h"
#include "tools/cli/follow_job.h"
#include "tools/cli/job_tables.h"
#include "tools/cli/progress.h"
#include "tools/cli/report.h"
#include "tools/cli/usage.h"
#include "tools/control/client.h"
#include "tools/control/worker/train_loop.h"
#include "tools/job/plugins.h"

namespace oneflow {
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

absl::Status SubmitJob(const JobArguments& arguments, const SchedulerArguments& scheduler, int priority) {
  OF_ASSIGN_OR_RETURN(SourcedConfig config, arguments.Load());
  OF_ASSIGN_OR_RETURN(const OpRegistry ops, OpsOf(config));
  OF_ASSIGN_OR_RETURN(Job job, MakeJob(std::move(config), JobKind::kTrain, ops));
  OF_RETURN_IF_ERROR(CompleteSpec(job, ops));
  OF_RETURN_IF_ERROR(CheckWork(job));
  OF_RETURN_IF_ERROR(ResumeAsAsked(arguments, job));
  PrintWarnings(job);
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, ConnectTo(scheduler));
  OF_ASSIGN_OR_RETURN(const int64_t id, client->Submit(job.spec, priority));
  std::cout << "job " << id << "\n";
  return absl::OkStatus();
}

// `again_and_again`: until the command is interrupted.
absl::Status ListJobs(const SchedulerArguments& scheduler, bool json, bool again_and_again) {
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

absl::Status DescribeJob(const SchedulerArguments& scheduler, int64_t job) {
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

absl::Status DiagnoseJob(const SchedulerArguments& scheduler, int64_t job) {
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, ConnectTo(scheduler));
  OF_ASSIGN_OR_RETURN(const std::string text, client->Diagnose(job));
  std::cout << text;
  return absl::OkStatus();
}

// Shows a job from its beginning as `oneflow run` does, and ends as that would.
absl::Status WatchJob(const SchedulerArguments& scheduler, int64_t job) {
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

struct LogsArguments {
  int64_t job = 0;
  int rank = -1;        // only of the worker that has it; negative: of all
  bool follow = false;  // from the beginning, until the job ends
};

absl::Status PrintLogs(const SchedulerArguments& scheduler, const LogsArguments& arguments) {
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, ConnectTo(scheduler));
  OF_ASSIGN_OR_RETURN(const pb::DescribeReply about, client->Describe(arguments.job));
  OF_ASSIGN_OR_RETURN(const int process, ProcessOf(about.status(), arguments.rank));
  if (arguments.follow) return FollowLogs(*client, about.status(), process);
  OF_ASSIGN_OR_RETURN(const std::vector<pb::WorkerLog> logs, client->Logs(arguments.job, process));
  for (const pb::WorkerLog& log : logs) Print(log);
  return absl::OkStatus();
}

absl::Status CancelJob(const SchedulerArguments& scheduler, int64_t job, bool gently) {
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, ConnectTo(scheduler));
  return client->Cancel(job, gently);
}

absl::Status RetryJob(const SchedulerArguments& scheduler, int64_t job) {
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, ConnectTo(scheduler));
  return client->Retry(job);
}

absl::Status ListNodes(const SchedulerArguments& scheduler) {
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, ConnectTo(scheduler));
  OF_ASSIGN_OR_RETURN(const std::vector<pb::Node> nodes, client->Nodes());
  std::cout << NodesTable(nodes);
  return absl::OkStatus();
}

absl::Status DrainNode(const SchedulerArguments& scheduler, const std::string& node, bool undo) {
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, ConnectTo(scheduler));
  return client->Drain(node, undo);
}

RunFunction DeclareSubmit(CLI::App& app, ParsedArguments& arguments) {
  SchedulerArguments& scheduler = arguments.scheduler();
  JobArguments& submit = arguments.New<JobArguments>();
  int& priority = arguments.New<int>();
  AddJob(app, submit);
  app.add_option("--priority", priority, "the higher, the earlier it is begun")
      ->capture_default_str()
      ->check(CLI::Range(-1000, 1000));
  AddResume(app, submit);
  AddScheduler(app, scheduler);
  return [&] { return Report(SubmitJob(submit, scheduler, priority)); };
}

struct JobsArguments {
  bool json = false, again = false;
};

RunFunction DeclareJobs(CLI::App& app, ParsedArguments& arguments) {
  SchedulerArguments& scheduler = arguments.scheduler();
  JobsArguments& jobs = arguments.New<JobsArguments>();
  app.add_flag("--json", jobs.json, "list them as one object a line, for programs");
  app.add_flag("-w,--watch", jobs.again, "list them again every second, until Ctrl-C");
  AddScheduler(app, scheduler);
  return [&] { return Report(ListJobs(scheduler, jobs.json, jobs.again)); };
}

// What is asked of one job.
template <absl::Status (*ask)(const SchedulerArguments&, int64_t)>
RunFunction DeclareAsk(CLI::App& app, ParsedArguments& arguments) {
  SchedulerArguments& scheduler = arguments.scheduler();
  int64_t& job = arguments.New<int64_t>();
  AddJobNumber(app, job);
  AddScheduler(app, scheduler);
  return [&] { return Report(ask(scheduler, job)); };
}

// The same, of a command of `jobs`, whose flags are for the list.
template <absl::Status (*ask)(const SchedulerArguments&, int64_t)>
RunFunction DeclareAskOfJobs(CLI::App& app, ParsedArguments& arguments) {
  for (const char* of_the_list : {"--json", "--watch"}) app.excludes(app.get_parent()->get_option(of_the_list));
  return DeclareAsk<ask>(app, arguments);
}

RunFunction DeclareLogs(CLI::App& app, ParsedArguments& arguments) {
  SchedulerArguments& scheduler = arguments.scheduler();
  LogsArguments& logs = arguments.New<LogsArguments>();
  AddJobNumber(app, logs.job);
  app.add_option("--rank", logs.rank, "only the worker that has this rank")->check(WholeFrom(0));
  app.add_flag("-f,--follow", logs.follow, "all of it from the beginning, and what comes, until the job ends");
  AddScheduler(app, scheduler);
  return [&] { return Report(PrintLogs(scheduler, logs)); };
}

RunFunction DeclareCancel(CLI::App& app, ParsedArguments& arguments) {
  SchedulerArguments& scheduler = arguments.scheduler();
  int64_t& job = arguments.New<int64_t>();
  bool& gently = arguments.New<bool>();
  AddJobNumber(app, job);
  app.add_flag("--gently", gently, "let it end the steps it is in, and write a checkpoint if it has a folder for them");
  AddScheduler(app, scheduler);
  return [&] { return Report(CancelJob(scheduler, job, gently)); };
}

RunFunction DeclareNodes(CLI::App& app, ParsedArguments& arguments) {
  SchedulerArguments& scheduler = arguments.scheduler();
  AddScheduler(app, scheduler);
  return [&] { return Report(ListNodes(scheduler)); };
}

RunFunction DeclareDrain(CLI::App& app, ParsedArguments& arguments) {
  SchedulerArguments& scheduler = arguments.scheduler();
  std::string& node = arguments.New<std::string>();
  bool& undo = arguments.New<bool>();
  app.add_option("node", node, "name of its daemon")->required()->check(Utf8());
  app.add_flag("--undo", undo, "give it jobs again");
  AddScheduler(app, scheduler);
  return [&] { return Report(DrainNode(scheduler, node, undo)); };
}

}  // namespace

std::vector<Command> SchedulerCommands() {
  return {
      {"submit", "submit a job to a running scheduler", DeclareSubmit},
      {"jobs",
       "list jobs",
       DeclareJobs,
       {
           {"describe", "say all that is known of a job: where it runs, or what it waits for",
            DeclareAskOfJobs<DescribeJob>},
           {"diagnose", "say who waits for whom in a running job, and what each rank does",
            DeclareAskOfJobs<DiagnoseJob>},
       }},
      {"watch", "show how a job goes on, as `run` does", DeclareAsk<WatchJob>},
      {"logs", "print what the workers of a job wrote", DeclareLogs},
      {"cancel", "cancel a job", DeclareCancel},
      {"retry", "queue a job that failed or was cancelled for one more attempt", DeclareAsk<RetryJob>},
      {"nodes", "list the daemons of a cluster", DeclareNodes},
      {"drain", "give a node no new jobs", DeclareDrain},
  };
}

}  // namespace oneflow
