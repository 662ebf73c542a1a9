// The commands of `oneflow` that people use, as functions of parsed arguments. main() only parses.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "oneflow_core/status.h"
#include "proto/control.pb.h"
#include "tools/control/client.h"
#include "tools/control/launch/manifest.h"
#include "tools/control/security/certificates.h"
#include "tools/job/job.h"

namespace oneflow {

// 0 done, 1 failed, 130 interrupted.
int ExitCode(const absl::Status& status);
// Prints an error as the one line that a user reads. The exit code.
int Report(const absl::Status& status);
// What compiling the job had to tell the user, on the stream of errors.
void PrintWarnings(const Job& job);

// How a command reaches a running scheduler.
struct SchedulerArguments {
  std::string address;  // empty: of `run` and `generate`, an embedded cluster
  std::string tls;      // folder of our certificate; empty: plain text
};
// With our certificate and token. Errors of LoadIdentity() and OwnToken().
absl::StatusOr<SchedulerAddress> AddressOf(const SchedulerArguments& scheduler);
// The same, and of Client::Connect().
absl::StatusOr<std::unique_ptr<Client>> ConnectTo(const SchedulerArguments& scheduler,
                                                  absl::Duration patience = absl::ZeroDuration());

struct JobArguments;
// Of a compiled job: InvalidArgument if it has nothing to do. A warning in the job if it looks at weights that nobody
// trained.
absl::Status CheckWork(Job& job);
// Says in the job from where it goes on. InvalidArgument if it shall, and has no checkpoints; errors of
// FindCheckpoint() for the folder that is named.
absl::Status ResumeAsAsked(const JobArguments& arguments, Job& job);

// An option that is another spelling of --set FIELD=VALUE.
struct FieldFlag {
  std::string flag, field, value;
};

// Arguments shared by all commands that take a job config.
struct JobArguments {
  std::string config;             // path
  std::string resume;             // "last": the last good checkpoint; or this one, or a job's folder; empty: none
  std::vector<std::string> sets;  // "train.steps=20", as given to --set
  std::vector<FieldFlag> fields;  // applied after `sets`

  // The config with all overrides applied. Errors of LoadConfig (tools/job/config.h); InvalidArgument if --set gives
  // the field of a flag another value.
  absl::StatusOr<SourcedConfig> Load() const;
};

// `oneflow run`: submits the job to an embedded cluster of this machine (or to a running scheduler) and follows it to
// its end.
struct RunArguments {
  JobArguments job;
  JobKind kind = JobKind::kTrain;
  SchedulerArguments scheduler;
  std::string metrics;    // file for one JSON object per training step; empty: none
  std::string page;       // where the embedded cluster has its page: PORT or HOST:PORT; empty: nowhere
  bool insecure = false;  // plain text is meant, also where the page is for other machines
  double lost_after = 0;  // seconds of silence of its processes (EmbeddedOptions); 0: as they have it
};
// Returns when the embedded cluster has stopped, with the exit code; an error is reported before that. Cancelled, that
// is 130, if the user pressed Ctrl-C.
int RunCommand(const RunArguments& arguments);

// `oneflow join`: in each task of a batch system's job. Together they are a cluster for this one job, which task 0
// follows to its end as `oneflow run` does. The exit code is that of `run`, in all tasks.
struct JoinArguments {
  JobArguments job;
  std::string metrics;    // file for one JSON object per training step, written by task 0; empty: none
  std::string first;      // host of task 0; empty: as the batch system says
  int port = 0;           // of the scheduler there; 0: one that follows from the job's number
  std::string tls;        // folder of the cluster's certificate; empty: plain text
  bool insecure = false;  // plain text is meant, also between machines
  double lost_after = 0;  // as RunArguments
};
int JoinCommand(const JoinArguments& arguments);

// `oneflow manifest`: prints what Kubernetes is to be told for a cluster that stays, or for one job.
struct ManifestArguments {
  ManifestOptions options;  // without the job's text
  std::string job;          // job config; empty: a cluster that stays
  bool insecure = false;    // pods may reach one another in plain text
};
absl::Status ManifestCommand(const ManifestArguments& arguments);

// `oneflow compile`: compiles, checks, prints a summary, writes the plan set to `output` unless empty. `dump_after`:
// name of a pass after which the graphs are printed, or "all".
absl::Status CompileCommand(const JobArguments& job, const std::string& output, const std::string& dump_after);

// `oneflow plan show`: a plan file, or the plan of a job config, for people; of one process its program, unless
// `process` is negative; or only what memory is for.
absl::Status PlanShowCommand(const JobArguments& file_or_job, int process, bool memory);
// The picture of a job's pipeline, as if all chunks cost the same: printed, and as SVG in a file if that has a name.
absl::Status PlanShowScheduleCommand(const JobArguments& job, const std::string& svg);

// `oneflow plan check`: proves a plan file that anyone may have written, and says what was proved
// (compiler/lower/plan_check.h).
absl::Status PlanCheckCommand(const std::string& file);

// `oneflow plan diff`: what changed from one plan to another, each a plan file or a job config. `sets` are of both
// configs and come before their own; InvalidArgument if there is none.
absl::Status PlanDiffCommand(const JobArguments& first, const JobArguments& second,
                             const std::vector<std::string>& sets);

// `oneflow plan credits`: of the plans of a file or job that a trace has acts of, what bounds the period by the times
// in the trace, and the fewest slots that reach the best one, or the goal (tools/study/planner/credits.h).
struct CreditsArguments {
  JobArguments file_or_job;
  std::string costs;     // trace of a run of it
  double period_ms = 0;  // of a step, to be reached; 0: the shortest
  double memory_mb = 0;  // the most that slots may take on a device; 0: whatever they take
  std::string save;      // file for a job's field `slots`; empty: none
};
absl::Status PlanCreditsCommand(const CreditsArguments& arguments);

// `oneflow plan explain`: why tensors lie as they do, what that costs and what moves; of the whole job, or of one
// tensor.
struct ExplainArguments {
  JobArguments job;
  std::string tensor;   // empty: the whole job
  std::string html;     // file for a page of the whole job; empty: none
  bool sealed = false;  // open nothing but what lies beside the config
};
absl::Status PlanExplainCommand(const ExplainArguments& arguments);

// `oneflow plan simulate`: how long a step would take, what of it is what, and what would change that.
struct SimulateArguments {
  JobArguments job;
  std::string costs;         // trace of a real run that says what things cost; empty: predicted from devices and links
  std::string kernels;       // what was measured of the job's instructions; empty: nothing
  bool or_roofline = false;  // what `kernels` lacks is predicted
  std::string trace;         // file for the simulated run; empty: none
  std::string plan;          // name; empty: the first
  int64_t steps = 0;         // 0: as many as the costs have, or enough
  bool all_ranks = false;    // play each, also those that do the same as others
  std::string cluster;       // file: other hosts than the job's, for what things cost; empty: the job's
  std::vector<std::string> slow, kill;  // what goes wrong (tools/study/sim/injection.h)
  double delay_ms = 0;
  uint64_t seed = 1;  // of the delays
};
absl::Status PlanSimulateCommand(const SimulateArguments& arguments);

// `oneflow trace summary FILE`: how long a step takes, what bounds it, what every queue does; `oneflow trace compare A
// B`: that of two traces of one plan.
struct TraceArguments {
  std::string file, other;
  std::string plan;  // name; empty: the plan that acts for longest
  int rank = -1;     // summary: only this rank's queues, in detail; negative: all
  int rows = 8;      // of every table
};
absl::Status TraceSummaryCommand(const TraceArguments& arguments);
absl::Status TraceCompareCommand(const TraceArguments& arguments);

// `oneflow checkpoint`: a name is the folder of a checkpoint, or of a job's, which stands for its last.
absl::Status CheckpointListCommand(const std::string& name);
// Reads every byte.
absl::Status CheckpointVerifyCommand(const std::string& name);
// The exit code: 0 if they hold the same to the bit, as of diff(1).
int CheckpointDiffCommand(const std::string& a, const std::string& b);
struct ConvertArguments {
  std::string from, to;  // a checkpoint and a safetensors file, or a safetensors file and a job's folder of checkpoints
  bool all = false;      // to safetensors: the optimizer's state and everything else too
  std::optional<int64_t> step;  // of the checkpoint that is made; default: 0
};
absl::Status CheckpointConvertCommand(const ConvertArguments& arguments);

// How long commands that follow a job wait for a scheduler that is being restarted.
inline constexpr absl::Duration kSchedulerPatience = absl::Minutes(1);
// OK for a job that finished; Cancelled; Aborted with why it failed.
absl::Status FinalStatus(const pb::StateChange& last);

// What is asked of a running scheduler. Errors name it and say what it answered.
absl::Status SubmitCommand(const JobArguments& job, const SchedulerArguments& scheduler, int priority);
// `again_and_again`: until the command is interrupted.
absl::Status JobsCommand(const SchedulerArguments& scheduler, bool json, bool again_and_again);
absl::Status DescribeCommand(const SchedulerArguments& scheduler, int64_t job);
absl::Status DiagnoseCommand(const SchedulerArguments& scheduler, int64_t job);
// Shows a job from its beginning as `oneflow run` does, and ends as that would.
absl::Status WatchCommand(const SchedulerArguments& scheduler, int64_t job);
struct LogsArguments {
  int64_t job = 0;
  int rank = -1;        // only of the worker that has it; negative: of all
  bool follow = false;  // from the beginning, until the job ends
};
absl::Status LogsCommand(const SchedulerArguments& scheduler, const LogsArguments& arguments);
absl::Status CancelCommand(const SchedulerArguments& scheduler, int64_t job, bool gently);
absl::Status RetryCommand(const SchedulerArguments& scheduler, int64_t job);
absl::Status NodesCommand(const SchedulerArguments& scheduler);
absl::Status DrainCommand(const SchedulerArguments& scheduler, const std::string& node, bool undo);

// `oneflow certs`: makes certificates of a cluster in a folder, and says where they go; shows those of a folder.
absl::Status CertsInitCommand(const std::string& folder, const CertificateOptions& options);
absl::Status CertsShowCommand(const std::string& folder);

// `oneflow token`: who may ask a scheduler what, in the file that its --tokens names.
struct TokenArguments {
  std::string file, name;
  std::string role;
};
// Prints the token, once.
absl::Status TokenAddCommand(const TokenArguments& arguments);
absl::Status TokenRemoveCommand(const TokenArguments& arguments);
absl::Status TokenListCommand(const std::string& file);

}  // namespace oneflow
