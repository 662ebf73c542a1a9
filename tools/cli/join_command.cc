// `oneflow join`: the tasks that a batch system has begun become a cluster for one job.
//
//   task 0          scheduler, a daemon; submits the job and shows it
//   each other      a daemon of that scheduler; stays until the job has ended
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "actor/checkpoint/manifest.h"
#include "tools/cli/commands.h"
#include "tools/cli/follow_job.h"
#include "tools/cli/report.h"
#include "tools/cli/usage.h"
#include "tools/control/cluster/embedded.h"
#include "tools/control/launch/allocation.h"
#include "tools/control/launch/joined_job.h"
#include "tools/control/launch/local_address.h"
#include "tools/control/security/certificates.h"
#include "tools/job/plugins.h"

namespace oneflow {
namespace {

struct JoinArguments {
  JobArguments job;
  std::string metrics;    // file for one JSON object per training step, written by task 0; empty: none
  std::string first;      // host of task 0; empty: as the batch system says
  int port = 0;           // of the scheduler there; 0: one that follows from the job's number
  std::string tls;        // folder of the cluster's certificate; empty: plain text
  bool insecure = false;  // plain text is meant, also between machines
  double lost_after = 0;  // as RunArguments
};

constexpr int kFirstPort = 20'000;
// Batch systems begin tasks one after another, some after a prolog.
constexpr absl::Duration kMeeting = absl::Minutes(2);
constexpr absl::Duration kLeaving = absl::Seconds(10);
constexpr absl::Duration kPause = absl::Milliseconds(100);

// What a task knows before it meets the others.
struct Joining {
  Allocation allocation;
  OpRegistry ops;
  CompiledJob compiled;  // only task 0 compiles it
  TlsIdentity identity;
  EmbeddedOptions cluster;
};

absl::StatusOr<Allocation> AllocationOf(const JoinArguments& arguments) {
  OF_ASSIGN_OR_RETURN(Allocation found, FindAllocation([](const char* name) { return std::getenv(name); }));
  if (!arguments.first.empty()) found.first = arguments.first;
  if (!found.first.empty()) return found;
  return absl::FailedPreconditionError(
      absl::StrCat(found.launcher, " does not say on which machine task 0 is: give --first HOST to all tasks"));
}

// Where all meet: a port of the machine of task 0.
absl::Status Meet(const JoinArguments& arguments, Joining& joining) {
  const Allocation& allocation = joining.allocation;
  OF_ASSIGN_OR_RETURN(const std::string first, NumericAddress(allocation.first));
  const std::string address = WithPort(first, arguments.port > 0 ? arguments.port : kFirstPort + allocation.number);
  if (allocation.task == 0) {
    joining.cluster.listen = address;
    joining.cluster.peer_host = first;
    return absl::OkStatus();
  }
  joining.cluster.scheduler = address;
  OF_ASSIGN_OR_RETURN(joining.cluster.peer_host, AddressTowards(first));
  return absl::OkStatus();
}

absl::StatusOr<Joining> Prepare(const JoinArguments& arguments) {
  Joining joining;
  OF_ASSIGN_OR_RETURN(joining.allocation, AllocationOf(arguments));
  OF_ASSIGN_OR_RETURN(SourcedConfig config, arguments.job.Load());
  OF_RETURN_IF_ERROR(FitToAllocation(joining.allocation, config));
  OF_ASSIGN_OR_RETURN(joining.ops, OpsOf(config));
  OF_ASSIGN_OR_RETURN(joining.compiled.job, MakeJob(std::move(config), JobKind::kTrain, joining.ops));
  const pb::JobSpec& spec = joining.compiled.job.spec;
  joining.cluster = ClusterOf(spec);
  joining.cluster.daemons = 1;
  joining.cluster.first = joining.allocation.task;
  joining.cluster.tls = arguments.tls;
  joining.cluster.insecure = arguments.insecure;
  joining.cluster.lost_after = arguments.lost_after;
  OF_ASSIGN_OR_RETURN(joining.identity, LoadIdentityIfAny(arguments.tls, Holder::kCluster));
  OF_RETURN_IF_ERROR(Meet(arguments, joining));
  return joining;
}

// A job that the batch system begins again goes on from its last checkpoint, if it has one.
absl::Status ResumeIfRestarted(const JoinArguments& arguments, Joining& joining) {
  JobArguments resume = arguments.job;
  const pb::JobSpec& spec = joining.compiled.job.spec;
  if (resume.resume.empty() && joining.allocation.restarted && spec.has_checkpoint()) {
    OF_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, ListCheckpoints(spec.checkpoint().path()));
    if (!steps.empty()) resume.resume = "last";
  }
  return ResumeAsAsked(resume, joining.compiled.job);
}

// The other tasks hear of the end from the scheduler, and leave then.
void AwaitOthersGone(const SchedulerAddress& scheduler, int tasks) {
  const absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(scheduler);
  const absl::Time deadline = absl::Now() + kLeaving;
  while (client.ok() && tasks > 1 && absl::Now() < deadline) {
    const absl::StatusOr<std::vector<pb::Node>> nodes = (*client)->Nodes();
    if (!nodes.ok() || nodes->size() <= 1) return;
    absl::SleepFor(kPause);
  }
}

absl::Status Lead(const JoinArguments& arguments, Joining& joining, Interrupt& interrupt) {
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<EmbeddedCluster> cluster, EmbeddedCluster::Start(joining.cluster));
  OF_ASSIGN_OR_RETURN(joining.compiled.plan, CompileJob(joining.compiled.job, joining.ops));
  OF_RETURN_IF_ERROR(CheckWork(joining.compiled.job));
  OF_RETURN_IF_ERROR(ResumeIfRestarted(arguments, joining));
  PrintWarnings(joining.compiled.job);
  const SchedulerAddress scheduler(cluster->address(), joining.identity);
  const absl::Status ended =
      FollowJob(joining.compiled, {.scheduler = scheduler, .metrics = arguments.metrics}, interrupt);
  AwaitOthersGone(scheduler, joining.allocation.tasks);
  return ended;
}

// The number of the job that task 0 submits.
absl::StatusOr<int64_t> AwaitJob(Client& client) {
  while (true) {
    OF_ASSIGN_OR_RETURN(const std::vector<pb::JobStatus> jobs, client.List());
    if (!jobs.empty()) return jobs[0].job();
    absl::SleepFor(kPause);
  }
}

// How the job ended, which task 0 tells.
absl::StatusOr<pb::StateChange> Serve(const Joining& joining) {
  // The task that leads may be suspended, alone or with all.
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client,
                      Client::Connect({joining.cluster.scheduler, joining.identity}, kMeeting, kSchedulerPatience));
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<EmbeddedCluster> cluster, EmbeddedCluster::Start(joining.cluster));
  OF_ASSIGN_OR_RETURN(const int64_t job, AwaitJob(*client));
  pb::StateChange last;
  OF_RETURN_IF_ERROR(client->Watch(job, 0, [&last](const pb::JobEvent& event) {
    if (event.has_state()) last = event.state();
    return true;
  }));
  return last;
}

// A task that serves ends with the job: a batch system that ends it tells task 0 too, which may have something to save.
class EndsWithJob {
 public:
  EndsWithJob() : signals_([this](int signal) { OnSignal(signal); }) {}

 private:
  void OnSignal(int signal) {
    if (++signals_seen_ > 1) std::_Exit(128 + signal);
  }
  int signals_seen_ = 0;  // on the thread of signals_
  StopSignals signals_;
};

int LeadToEnd(const JoinArguments& arguments) {
  Interrupt interrupt;
  absl::StatusOr<Joining> joining = Prepare(arguments);
  return Report(joining.ok() ? Lead(arguments, *joining, interrupt) : joining.status());
}

int ServeToEnd(const JoinArguments& arguments) {
  const EndsWithJob until;
  const absl::StatusOr<Joining> joining = Prepare(arguments);
  if (!joining.ok()) return Report(joining.status());
  const absl::StatusOr<pb::StateChange> last = Serve(*joining);
  if (!last.ok()) return Report(last.status());
  return ExitCode(FinalStatus(*last));
}

int JoinJob(const JoinArguments& arguments) {
  // Signals have their thread before anything else begins, and it depends on the task whose they are.
  const absl::StatusOr<Allocation> allocation = FindAllocation([](const char* name) { return std::getenv(name); });
  if (!allocation.ok()) return Report(allocation.status());
  return allocation->task == 0 ? LeadToEnd(arguments) : ServeToEnd(arguments);
}

RunFunction DeclareJoin(CLI::App& app, ParsedArguments& arguments) {
  JoinArguments& join = arguments.New<JoinArguments>();
  AddConfig(app, join.job);
  AddResume(app, join.job);
  app.add_option("--metrics", join.metrics, "write one JSON object per step to this file, from task 0");
  app.add_option("--first", join.first, "host of task 0; default: as the batch system says")->check(HostAlone());
  app.add_option("--port", join.port, "of that host, where the tasks meet; default: from 20000 on, by the job's number")
      ->check(CLI::Range(1, 65535));
  AddTls(app, join.tls);
  AddInsecure(app, join.insecure);
  AddLostAfter(app, join.lost_after, kLostAfterHelp);
  return [&join] { return JoinJob(join); };
}

}  // namespace

std::vector<Command> JoinCommands() {
  return {{"join", "train a job in the tasks that srun, mpirun or Kubernetes has begun, of which this is one",
           DeclareJoin}};
}

}  // namespace oneflow
