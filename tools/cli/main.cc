// The `oneflow` command: parses arguments, calls one command, prints its error once. Exit codes: 0 done, 1 failed, 2
// wrong usage, 130 interrupted.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iostream>

#include "CLI/CLI.hpp"
#include "absl/strings/str_split.h"
#include "glog/logging.h"
#include "tools/bench/bench.h"
#include "tools/cli/commands.h"
#include "tools/cli/manual.h"
#include "tools/cli/usage.h"
#include "tools/control/daemon/daemon_main.h"
#include "tools/control/scheduler/scheduler_main.h"
#include "tools/control/worker/worker_main.h"
#include "tools/page/page.h"
#include "tools/study/calibration/device.h"
#include "tools/study/calibration/kernels.h"

namespace oneflow {
namespace {

// A flag that is another spelling of --set FIELD=VALUE.
void AddFieldFlag(CLI::App& app, std::vector<FieldFlag>& fields, const std::string& flag, const std::string& field,
                  const std::string& help) {
  app.add_option_function<std::string>(
      flag,
      [&fields, flag, field](const std::string& value) {
        fields.push_back({flag, field, value});
      },
      help);
}

void AddConfig(CLI::App& app, JobArguments& job) {
  app.add_option("job", job.config, "job config (protobuf text)")->required();
  app.add_option("--set", job.sets,
                 "override a field of the config: path.to.field=value; may be repeated, and the last of a field counts")
      ->allow_extra_args(false);
}

void AddJob(CLI::App& app, JobArguments& job) {
  AddConfig(app, job);
  AddFieldFlag(app, job.fields, "--cluster", "cluster.processes", "number of processes");
}

void AddResume(CLI::App& app, JobArguments& job) {
  app.add_flag(
      "--resume{last}", job.resume,
      "go on from the last good checkpoint in checkpoint.path, or with =FOLDER from that one, or from the last "
      "of another job's folder");
}

constexpr char kTlsHelp[] = "folder of certificates, as `certs init` makes them; default: ONEFLOW_TLS, or plain text";

// The environment's is a default, not an option given: what contradicts --tls does not contradict that.
CLI::Option* AddTls(CLI::App& app, std::string& folder) {
  if (const char* const usual = std::getenv("ONEFLOW_TLS"); usual != nullptr) folder = usual;
  return app.add_option("--tls", folder, kTlsHelp);
}

// Where the address has no default, a certificate is for nobody without it.
void AddScheduler(CLI::App& app, SchedulerArguments& scheduler, const char* help = "address of the scheduler") {
  CLI::Option* const address = app.add_option("--scheduler", scheduler.address, help)->check(HostAndPort(false));
  if (!scheduler.address.empty()) address->capture_default_str();
  CLI::Option* const tls = AddTls(app, scheduler.tls);
  if (scheduler.address.empty()) tls->needs(address);
}

absl::Status BenchOn(const SchedulerArguments& scheduler, BenchArguments bench) {
  if (!scheduler.address.empty()) {
    const std::vector<std::string> cases = absl::StrSplit(bench.cases, ',');
    if (std::find(cases.begin(), cases.end(), "links") == cases.end())
      return absl::InvalidArgumentError("--scheduler is for the case `links`, which --cases does not name");
    OF_ASSIGN_OR_RETURN(bench.scheduler, AddressOf(scheduler));
  }
  return BenchCommand(bench);
}

// REQUIRES: the command has --tls already.
void AddInsecure(CLI::App& app, bool& insecure) {
  app.add_flag("--insecure", insecure, "serve other machines in plain text: whoever reaches the port gives orders")
      ->excludes("--tls");
}

void AddLostAfter(CLI::App& app, double& seconds, const char* help) {
  app.add_option("--lost-after", seconds, help)->check(NumberIn(2, 86'400));
}
constexpr char kLostAfterHelp[] =
    "seconds of silence after which a process of the cluster is taken for dead while others run; default: 2.5, of a "
    "worker 2";

void AddMetricsPort(CLI::App& app, std::string& place) {
  app.add_option("--metrics-port", place, "serve /metrics for Prometheus at PORT of this machine, or HOST:PORT")
      ->check(PlaceToServe());
}

CLI::Option* AddPage(CLI::App& app, std::string& place) {
  return app.add_option("--page", place, "show what goes on to browsers at PORT of this machine, or HOST:PORT")
      ->check(PlaceToServe());
}

constexpr int kMostDevices = 4096;  // of a job, and so of use on a machine
constexpr int kMostCores = 65'536;

// Wrong usage in one line; help and the like are printed as CLI11 does.
int ReportUsage(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
  if (error.get_exit_code() == 0) return app.exit(error);
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  std::string what = error.what(), path = command->get_name();
  for (const CLI::App* above = command->get_parent(); above != nullptr; above = above->get_parent())
    path = absl::StrCat(above->get_name(), " ", path);
  if (command == &app && argc > 1 && argv[1][0] != '-') what = absl::StrCat("there is no command '", argv[1], "'");
  std::cerr << path << ": " << what << "; '" << path << " --help' shows what there is\n";
  return 2;
}

int Main(int argc, char** argv) {
  CLI::App app("a distributed deep-learning engine", "oneflow");
  app.require_subcommand(1);
  app.set_version_flag("--version", "oneflow " ONEFLOW_VERSION);
  std::function<int()> command;
  const auto add = [&](CLI::App& parent, const char* name, const char* help, std::function<int()> run) {
    CLI::App* const sub = parent.add_subcommand(name, help);
    sub->callback([&command, run = std::move(run)] { command = run; });
    return sub;
  };

  RunArguments run;
  CLI::App* sub =
      add(app, "run", "train a job on an embedded cluster of this machine", [&] { return RunCommand(run); });
  AddJob(*sub, run.job);
  sub->add_option("--metrics", run.metrics, "write one JSON object per step to this file");
  AddScheduler(*sub, run.scheduler, "use this running scheduler instead of an embedded cluster");
  AddPage(*sub, run.page);
  sub->add_flag("--insecure", run.insecure, "serve the page to other machines in plain text");
  AddLostAfter(*sub, run.lost_after, kLostAfterHelp);
  AddResume(*sub, run.job);
  AddFieldFlag(*sub, run.job.fields, "--weights", "weights", "safetensors file to start from");
  AddFieldFlag(*sub, run.job.fields, "--save-weights", "save_weights", "safetensors file to write at the end");
  AddFieldFlag(*sub, run.job.fields, "--save-initial-weights", "save_initial_weights",
               "the same before the first step");
  AddFieldFlag(*sub, run.job.fields, "--save-gradients", "save_gradients", "gradients of the last step");
  AddFieldFlag(*sub, run.job.fields, "--trace", "trace.file", "write what every actor did, for Perfetto and `trace`");

  RunArguments generate;
  generate.kind = JobKind::kGenerate;
  sub = add(app, "generate", "continue a text with a trained model", [&] { return RunCommand(generate); });
  AddJob(*sub, generate.job);
  AddScheduler(*sub, generate.scheduler, "use this running scheduler instead of an embedded cluster");
  AddFieldFlag(*sub, generate.job.fields, "--weights", "weights", "safetensors file of the trained model");
  AddFieldFlag(*sub, generate.job.fields, "--prompt", "generate.prompt", "text to continue");
  AddFieldFlag(*sub, generate.job.fields, "--tokens", "generate.tokens", "how many bytes");
  AddFieldFlag(*sub, generate.job.fields, "--temperature", "generate.temperature", "0: always the likeliest");

  JoinArguments join;
  sub = add(app, "join", "train a job in the tasks that srun, mpirun or Kubernetes has begun, of which this is one",
            [&] { return JoinCommand(join); });
  AddConfig(*sub, join.job);
  AddResume(*sub, join.job);
  sub->add_option("--metrics", join.metrics, "write one JSON object per step to this file, from task 0");
  sub->add_option("--first", join.first, "host of task 0; default: as the batch system says")->check(HostAlone());
  sub->add_option("--port", join.port,
                  "of that host, where the tasks meet; default: from 20000 on, by the job's number")
      ->check(CLI::Range(1, 65535));

  AddTls(*sub, join.tls);
  AddInsecure(*sub, join.insecure);
  AddLostAfter(*sub, join.lost_after, kLostAfterHelp);

  ManifestArguments manifest;
  sub = add(app, "manifest", "print what Kubernetes is to be told for a cluster that stays, or for one job",
            [&] { return Report(ManifestCommand(manifest)); });
  sub->add_option("job", manifest.job, "job config (protobuf text): pods for this job alone");
  sub->add_option("--image", manifest.options.image, "container image that has `oneflow`")->required()->check(Utf8());
  sub->add_option("--name", manifest.options.name, "of what is made, or its beginning")->capture_default_str();
  sub->add_option("--namespace", manifest.options.space, "default: where it is applied");
  sub->add_option("--tasks", manifest.options.tasks, "pods of the job; default: its processes");
  sub->add_option("--cpus", manifest.options.cpus, "of a pod; 0: no limit")->check(CLI::Range(0, 100'000));
  sub->add_option("--gpus", manifest.options.gpus, "of a pod")->check(CLI::Range(0, 1024));
  sub->add_option("--memory", manifest.options.memory, "of a pod, as 16Gi; default: no limit");
  sub->add_option("--claim", manifest.options.claim, "PersistentVolumeClaim that all pods see under /data")
      ->check(Utf8());
  sub->add_option("--tls-secret", manifest.options.tls, "Secret that holds a folder of certificates")->check(Utf8());
  sub->add_flag("--insecure", manifest.insecure,
                "pods reach one another in plain text: whoever reaches a port gives "
                "orders");

  JobArguments compile;
  std::string output, dump_after;
  sub = add(app, "compile", "compile a job and check its plans, without running it",
            [&] { return Report(CompileCommand(compile, output, dump_after)); });
  AddJob(*sub, compile);
  sub->add_option("-o,--output", output, "write the plan set to this file");
  sub->add_option("--dump-after", dump_after, "print the graphs after this pass, or after 'all'");

  CLI::App* const plan = app.add_subcommand("plan", "look at plans");
  plan->require_subcommand(1);
  JobArguments show;
  int show_process = -1;
  bool show_memory = false, show_schedule = false;
  std::string schedule_svg;
  sub = add(*plan, "show", "print a plan: classes of ranks, memory, registers, actors", [&] {
    if (show_schedule || !schedule_svg.empty()) return Report(PlanShowScheduleCommand(show, schedule_svg));
    return Report(PlanShowCommand(show, show_process, show_memory));
  });
  sub->add_option("file", show.config, "plan file, or job config *.pbtxt")->required();
  sub->add_option("--set", show.sets, "override a field of the config")->allow_extra_args(false);
  sub->add_option("--process", show_process, "print the program of this process instead")->check(WholeFrom(0));
  sub->add_flag("--memory", show_memory, "print what memory is for instead: weights, optimizer, activations, ...")
      ->excludes("--process");
  sub->add_flag("--schedule", show_schedule, "draw the pipeline's schedule instead")
      ->excludes("--process")
      ->excludes("--memory");
  sub->add_option("--schedule-svg", schedule_svg, "the same, and write it to this file as SVG")
      ->excludes("--process")
      ->excludes("--memory");
  std::string checked;
  sub = add(*plan, "check", "prove a plan file, whoever wrote it: format, memory, rates, no deadlock",
            [&] { return Report(PlanCheckCommand(checked)); });
  sub->add_option("file", checked, "plan file")->required();
  JobArguments before, after;
  std::vector<std::string> of_both;
  sub = add(*plan, "diff", "say what changed from one plan to another",
            [&] { return Report(PlanDiffCommand(before, after, of_both)); });
  sub->add_option("file", before.config, "plan file, or job config *.pbtxt")->required();
  sub->add_option("other", after.config, "what to compare with it")->required();
  sub->add_option("--set", of_both, "override a field of both configs, or of that beside a plan file")
      ->allow_extra_args(false);
  sub->add_option("--set-other", after.sets, "override a field of the second config alone")->allow_extra_args(false);
  CreditsArguments credits;
  sub = add(*plan, "credits", "say what bounds a step, and the fewest slots of registers that make it shortest",
            [&] { return Report(PlanCreditsCommand(credits)); });
  sub->add_option("file", credits.file_or_job.config, "plan file, or job config *.pbtxt")->required();
  sub->add_option("--set", credits.file_or_job.sets, "override a field of the config")->allow_extra_args(false);
  sub->add_option("--costs", credits.costs, "trace of a run of it, which says what acts take")->required();
  sub->add_option("--period-ms", credits.period_ms, "as few slots as reach this period; default: the shortest")
      ->check(NumberIn(0, 1e9));
  sub->add_option("--memory-mb", credits.memory_mb, "the most that slots may take on a device, in 10^6 bytes")
      ->check(NumberIn(0, 1e12));
  sub->add_option("--save", credits.save, "write the slots to this file, which a job's field `slots` takes");
  ExplainArguments explain;
  sub = add(*plan, "explain", "say why tensors lie as they do, what that costs and what moves",
            [&] { return Report(PlanExplainCommand(explain)); });
  AddJob(*sub, explain.job);
  sub->add_option("tensor", explain.tensor, "only this tensor: its name, or the beginning of several");
  sub->add_option("--html", explain.html, "write a page of the whole job to this file");
  sub->add_flag("--sealed", explain.sealed,
                "open no file that the job names, and be kept from it: for configs of others, or of another machine");

  SimulateArguments simulate;
  sub = add(*plan, "simulate", "say how long a step would take, what bounds it and what would change that",
            [&] { return Report(PlanSimulateCommand(simulate)); });
  AddConfig(*sub, simulate.job);
  sub->add_option("--costs", simulate.costs, "trace of a run of this very plan that says what everything costs");
  CLI::Option* const kernels =
      sub->add_option("--kernels", simulate.kernels, "what `bench kernels` measured of the job's instructions")
          ->excludes("--costs");
  sub->add_flag("--kernels-or-roofline", simulate.or_roofline, "predict what --kernels lacks, instead of an error")
      ->needs(kernels);
  sub->add_option("--trace", simulate.trace, "write the simulated run to this file");
  sub->add_option("--plan", simulate.plan, "simulate this plan; default: the first");
  sub->add_option("--steps", simulate.steps,
                  "how many to simulate, of which all but the first count; default: as many as --costs has, else "
                  "until they repeat, 8 at most")
      ->check(CLI::Range(2, 100'000));
  sub->add_flag("--all-ranks", simulate.all_ranks, "play every rank, not one of those that do the same");
  sub->add_option("--cluster", simulate.cluster,
                  "by the prices of the hosts in this file: the text of a job's cluster {}");
  sub->add_option("--slow", simulate.slow, "RANK=FACTOR: its acts take so many times as long")->allow_extra_args(false);
  sub->add_option("--kill", simulate.kill, "RANK@MS: it dies then; says who waits for whom")->allow_extra_args(false);
  CLI::Option* const delay = sub->add_option("--delay", simulate.delay_ms,
                                             "acts and messages take up to so many milliseconds longer, at random");
  sub->add_option("--seed", simulate.seed, "of --delay")->capture_default_str()->check(WholeFrom(0))->needs(delay);
  for (const char* injected : {"--cluster", "--slow", "--kill", "--delay"}) {  // what was measured was measured so
    sub->get_option(injected)->excludes("--costs")->excludes("--kernels");
  }

  CLI::App* const trace = app.add_subcommand("trace", "look at traces that `run --trace FILE` wrote");
  trace->require_subcommand(1);
  TraceArguments summary;
  sub = add(*trace, "summary", "say how long a step takes, what bounds it, and what every queue does",
            [&] { return Report(TraceSummaryCommand(summary)); });
  sub->add_option("file", summary.file, "trace")->required();
  sub->add_option("--plan", summary.plan, "look at this plan; default: the one that acts for longest");
  sub->add_option("--rank", summary.rank, "only this rank's queues, in detail")->check(WholeFrom(0));
  sub->add_option("--rows", summary.rows, "of every table")->capture_default_str()->check(WholeFrom(1));
  TraceArguments compare;
  sub = add(*trace, "compare", "compare two traces of one plan", [&] { return Report(TraceCompareCommand(compare)); });
  sub->add_option("file", compare.file, "trace")->required();
  sub->add_option("other", compare.other, "trace to compare with it")->required();
  sub->add_option("--plan", compare.plan, "look at this plan; default: the one that acts for longest");
  sub->add_option("--rows", compare.rows, "of every table")->capture_default_str()->check(WholeFrom(1));

  CLI::App* const checkpoint = app.add_subcommand("checkpoint", "look at checkpoints of jobs, and convert them");
  checkpoint->require_subcommand(1);
  std::string name, other_name;
  sub = add(*checkpoint, "ls", "list a job's checkpoints", [&] { return Report(CheckpointListCommand(name)); });
  sub->add_option("folder", name, "checkpoint.path of a job, or one checkpoint")->required();
  sub = add(*checkpoint, "verify", "read every byte and say whether it is what was written",
            [&] { return Report(CheckpointVerifyCommand(name)); });
  sub->add_option("folder", name, "checkpoint.path of a job, or one checkpoint")->required();
  sub = add(*checkpoint, "diff", "compare two checkpoints; exits with 1 if they differ",
            [&] { return CheckpointDiffCommand(name, other_name); });
  sub->add_option("folder", name, "checkpoint, or a job's folder for its last")->required();
  sub->add_option("other", other_name, "the same, to compare with it")->required();
  ConvertArguments convert;
  sub = add(*checkpoint, "convert", "write a checkpoint's tensors to a safetensors file, or make a checkpoint of one",
            [&] { return Report(CheckpointConvertCommand(convert)); });
  sub->add_option("from", convert.from, "checkpoint, or a job's folder for its last; or a safetensors file")
      ->required();
  sub->add_option("to", convert.to, "safetensors file; or a job's folder of checkpoints")->required();
  sub->add_flag("--all", convert.all, "also what are no weights: the optimizer's state, statistics, ...");
  sub->add_option("--step", convert.step, "of the checkpoint that is made; default: 0")->check(WholeFrom(0));

  SchedulerArguments scheduler{.address = SchedulerArgs().address};
  JobArguments submit;
  int priority = 0;
  sub = add(app, "submit", "submit a job to a running scheduler",
            [&] { return Report(SubmitCommand(submit, scheduler, priority)); });
  AddJob(*sub, submit);
  sub->add_option("--priority", priority, "the higher, the earlier it is begun")
      ->capture_default_str()
      ->check(CLI::Range(-1000, 1000));
  AddResume(*sub, submit);
  AddScheduler(*sub, scheduler);
  // A command that has a command of its own is called after it, and leaves the choice to it.
  bool json = false, again = false;
  int64_t job = 0;
  CLI::App* const jobs = app.add_subcommand("jobs", "list jobs");
  jobs->callback([&] {
    if (jobs->get_subcommands().empty()) command = [&] { return Report(JobsCommand(scheduler, json, again)); };
  });
  CLI::Option* const as_json = jobs->add_flag("--json", json, "list them as one object a line, for programs");
  CLI::Option* const watch = jobs->add_flag("-w,--watch", again, "list them again every second, until Ctrl-C");
  AddScheduler(*jobs, scheduler);
  sub = add(*jobs, "describe", "say all that is known of a job: where it runs, or what it waits for",
            [&] { return Report(DescribeCommand(scheduler, job)); });
  sub->excludes(as_json)->excludes(watch);
  sub->add_option("job", job, "number of the job")->required()->check(WholeFrom(1));
  AddScheduler(*sub, scheduler);
  sub = add(*jobs, "diagnose", "say who waits for whom in a running job, and what each rank does",
            [&] { return Report(DiagnoseCommand(scheduler, job)); });
  sub->excludes(as_json)->excludes(watch);
  sub->add_option("job", job, "number of the job")->required()->check(WholeFrom(1));
  AddScheduler(*sub, scheduler);
  sub =
      add(app, "watch", "show how a job goes on, as `run` does", [&] { return Report(WatchCommand(scheduler, job)); });
  sub->add_option("job", job, "number of the job")->required()->check(WholeFrom(1));
  AddScheduler(*sub, scheduler);
  LogsArguments logs;
  sub = add(app, "logs", "print what the workers of a job wrote", [&] { return Report(LogsCommand(scheduler, logs)); });
  sub->add_option("job", logs.job, "number of the job")->required()->check(WholeFrom(1));
  sub->add_option("--rank", logs.rank, "only the worker that has this rank")->check(WholeFrom(0));
  sub->add_flag("-f,--follow", logs.follow, "all of it from the beginning, and what comes, until the job ends");
  AddScheduler(*sub, scheduler);
  bool gently = false;
  sub = add(app, "cancel", "cancel a job", [&] { return Report(CancelCommand(scheduler, job, gently)); });
  sub->add_option("job", job, "number of the job")->required()->check(WholeFrom(1));
  sub->add_flag("--gently", gently,
                "let it end the steps it is in, and write a checkpoint if it has a folder for them");
  AddScheduler(*sub, scheduler);

  sub = add(app, "retry", "queue a job that failed or was cancelled for one more attempt",
            [&] { return Report(RetryCommand(scheduler, job)); });
  sub->add_option("job", job, "number of the job")->required()->check(WholeFrom(1));
  AddScheduler(*sub, scheduler);
  AddScheduler(*add(app, "nodes", "list the daemons of a cluster", [&] { return Report(NodesCommand(scheduler)); }),
               scheduler);
  std::string node;
  bool undo = false;
  sub = add(app, "drain", "give a node no new jobs", [&] { return Report(DrainCommand(scheduler, node, undo)); });
  sub->add_option("node", node, "name of its daemon")->required()->check(Utf8());
  sub->add_flag("--undo", undo, "give it jobs again");
  AddScheduler(*sub, scheduler);

  CLI::App* const certs = app.add_subcommand("certs", "certificates of a cluster and of its users");
  certs->require_subcommand(1);
  std::string certs_folder;
  CertificateOptions certificates;
  sub = add(*certs, "init", "make a CA, and a certificate each for the cluster and its users",
            [&] { return Report(CertsInitCommand(certs_folder, certificates)); });
  sub->add_option("folder", certs_folder, "where; one that has a CA keeps it")->required();
  sub->add_option("--host", certificates.hosts, "name or address of a machine of the cluster; may be repeated")
      ->allow_extra_args(false);
  sub->add_option("--days", certificates.days, "how long they are good")
      ->capture_default_str()
      ->check(CLI::Range(1, 3650));
  sub = add(*certs, "show", "say whose the certificates of a folder are, and when they end",
            [&] { return Report(CertsShowCommand(certs_folder)); });
  sub->add_option("folder", certs_folder, "of certificates, or of such folders")->required();

  CLI::App* const token = app.add_subcommand("token", "who may ask a scheduler what");
  token->require_subcommand(1);
  TokenArguments tokens;
  sub = add(*token, "add", "make a token for a user, and print it", [&] { return Report(TokenAddCommand(tokens)); });
  sub->add_option("file", tokens.file, "as of `scheduler --tokens`; made if it is not there")->required();
  sub->add_option("name", tokens.name, "whose jobs will be theirs")->required();
  sub->add_option("--role", tokens.role, "read: look; submit: and submit, and cancel and retry one's own; admin: all")
      ->required()
      ->check(CLI::IsMember({"read", "submit", "admin"}));
  sub = add(*token, "remove", "refuse a user's token from now on", [&] { return Report(TokenRemoveCommand(tokens)); });
  sub->add_option("file", tokens.file, "as of `scheduler --tokens`")->required();
  sub->add_option("name", tokens.name, "of the user")->required();
  sub = add(*token, "ls", "list names and roles", [&] { return Report(TokenListCommand(tokens.file)); });
  sub->add_option("file", tokens.file, "as of `scheduler --tokens`")->required();

  BenchArguments bench;
  BenchDeviceArguments bench_device;
  BenchKernelsArguments bench_kernels;
  SchedulerArguments bench_scheduler;
  sub = add(app, "bench", "measure the engine on a gpt, beside PyTorch if a Python with it is named", [&] {
    if (bench_device.asked) return Report(BenchDeviceCommand(bench_device));
    return Report(bench_kernels.asked ? BenchKernelsCommand(bench_kernels) : BenchOn(bench_scheduler, bench));
  });
  CLI::App* const device =
      sub->add_subcommand("device", "measure this machine's device, as a row for cluster.device_table");
  device->callback([&] { bench_device.asked = true; });
  device->add_option("--device", bench_device.device, "cpu or cuda")->capture_default_str();
  device->add_option("--kind", bench_device.kind, "name of the row; default: the device");
  device->add_option("--cores", bench_device.cores, "cores that a cpu device has")
      ->capture_default_str()
      ->check(CLI::Range(1, kMostCores));
  device->add_option("--output", bench_device.output, "file to write; default: standard output");
  CLI::App* const timed = sub->add_subcommand(
      "kernels", "measure the instructions of a job's plan on this machine, for `plan simulate --kernels`");
  timed->callback([&] { bench_kernels.asked = true; });
  timed->add_option("job", bench_kernels.config, "job config")->required();
  timed->add_option("--set", bench_kernels.sets, "override a field of the config")->allow_extra_args(false);
  timed->add_option("--plan", bench_kernels.plan, "measure this plan; default: the first");
  timed->add_option("--output", bench_kernels.output, "file to write; default: standard output");
  timed->add_option("--steps", bench_kernels.steps, "of which the median counts")
      ->capture_default_str()
      ->check(CLI::Range(1, 10'000));
  sub->add_option("job", bench.config, "job config with a gpt; default: the quickstart's model on a generated text");
  sub->add_option("--set", bench.sets, "override a field of the config; may be repeated")->allow_extra_args(false);
  sub->add_option("--rounds", bench.rounds, "how often everything is measured, in turn")->capture_default_str();
  sub->add_option("--steps", bench.steps, "measured steps of a round; default: 20, less where one takes seconds");
  sub->add_option("--warmup", bench.warmup, "steps before them; default: 5, or less");
  sub->add_option("--cores", bench.cores, "cores for each layout and for PyTorch; 0: all of this machine")
      ->capture_default_str();
  sub->add_option("--cases", bench.cases, "what to measure, separated by commas")->capture_default_str();
  CLI::Option* const python =
      sub->add_option("--pytorch", bench.pytorch, "Python interpreter with PyTorch to compare with");
  sub->add_option("--pytorch-script", bench.pytorch_script, "the models in PyTorch")
      ->capture_default_str()
      ->needs(python);
  sub->add_option("--pytorch-modes", bench.pytorch_modes,
                  "of a case's modes of PyTorch, such as eager,compile; default: all")
      ->needs(python);
  sub->add_option("--json", bench.json, "write all figures to this file");
  AddScheduler(*sub, bench_scheduler, "measure `links` between the hosts of this cluster");
  for (CLI::Option* option : sub->get_options()) {  // of the cases
    if (option->get_name() == "--help") continue;
    device->excludes(option);
    timed->excludes(option);
  }

  add(app, "man", "print this program's man page, for `man -l -`", [&] {
    std::cout << ManPage(app);
    return 0;
  });
  std::string shell;
  sub = add(app, "completion", "print what completes this program's commands in a shell, to be sourced there", [&] {
    std::cout << (shell == "zsh" ? ZshCompletion(app) : BashCompletion(app));
    return 0;
  });
  sub->add_option("shell", shell, "bash or zsh")->required()->check(CLI::IsMember({"bash", "zsh"}));

  SchedulerArgs scheduler_args;
  sub = add(app, "scheduler", "serve as the scheduler of a cluster", [&] { return SchedulerMain(scheduler_args, ServePage); });
  sub->add_option("--address", scheduler_args.address, "host:port to listen on")
      ->capture_default_str()
      ->check(HostAndPort(true));
  sub->add_option("--db", scheduler_args.db, "file of jobs and events")->capture_default_str();
  sub->add_option("--devices-per-user", scheduler_args.devices_per_user,
                  "how many devices of a kind the jobs of a user may have at a time; 0: all")
      ->capture_default_str()
      ->check(WholeFrom(0));
  sub->add_option("--keep-jobs", scheduler_args.keep_jobs,
                  "how many jobs that ended are kept, with their events, plans and logs; earlier ones are forgotten")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{0}, int64_t{1'000'000}));
  sub->add_option("--keep-days", scheduler_args.keep_days, "how many days after their end they are kept")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{0}, int64_t{36'500}));
  AddTls(*sub, scheduler_args.tls);
  sub->add_option("--tokens", scheduler_args.tokens,
                  "file of tokens, as `token add` makes it; default: whoever reaches the port may ask everything");
  AddInsecure(*sub, scheduler_args.insecure);
  AddLostAfter(*sub, scheduler_args.lost_after,
               "seconds of silence after which a daemon is taken for dead while others are heard; default: 2.5");
  sub->add_flag("--parent-only", scheduler_args.parent_only)->group("");
  AddMetricsPort(*sub, scheduler_args.metrics);
  CLI::Option* const page = AddPage(*sub, scheduler_args.page);
  sub->add_option("--allow-path", scheduler_args.allow_paths,
                  "folder whose files, traces of jobs, the page may show; may be repeated; default: none where others "
                  "than this machine's users may submit jobs")
      ->allow_extra_args(false)
      ->needs(page);
  sub->add_option("--ready-fd", scheduler_args.ready_fd,
                  "descriptor that takes the address, and that of a page, once it serves")
      ->check(WholeFrom(0));

  DaemonArgs daemon;
  sub = add(app, "daemon", "offer this machine's devices to a scheduler", [&] { return DaemonMain(daemon); });
  sub->add_option("--scheduler", daemon.scheduler, "address of the scheduler")
      ->capture_default_str()
      ->check(HostAndPort(false));
  sub->add_option("--name", daemon.name, "unique in the cluster; default: the host's name")->check(Utf8());
  sub->add_option("--cpu-devices", daemon.cpu_devices,
                  "cpu devices to offer; default: one for each part of the machine's memory (NUMA node)")
      ->check(CLI::Range(0, kMostDevices));
  sub->add_option("--cuda-devices", daemon.cuda_devices, "cuda devices to offer; default: all that nvidia-smi lists")
      ->check(CLI::Range(0, kMostDevices));
  sub->add_option("--cores", daemon.cores, "cores for the cpu devices; 0: all")->check(CLI::Range(0, kMostCores));
  sub->add_option("--work-dir", daemon.work_dir, "directory of the workers' logs; default: a temporary one");
  sub->add_option("--peer-host", daemon.peer_host, "where workers listen for workers of other daemons")
      ->capture_default_str()
      ->check(HostAlone());
  sub->add_option("--allow-path", daemon.allow_paths,
                  "folder that jobs may read and write; may be repeated; / alone: everything. Default: everything if "
                  "the scheduler "
                  "is on this machine and without --tls, else nothing")
      ->allow_extra_args(false);
  AddTls(*sub, daemon.tls);
  AddInsecure(*sub, daemon.insecure);
  AddLostAfter(*sub, daemon.lost_after,
               "seconds of silence after which a worker is taken for frozen, and killed; default: 2");
  sub->add_flag("--parent-only", daemon.parent_only)->group("");
  sub->add_flag("--one-job", daemon.one_job)->group("");
  AddMetricsPort(*sub, daemon.metrics);
  sub->add_option("--ready-fd", daemon.ready_fd, "descriptor that takes a line once it is registered")
      ->check(WholeFrom(0));

  WorkerArgs worker;
  sub = add(app, "worker", "one process of a job; started by a daemon", [&] { return WorkerMain(worker); });
  sub->group("");  // not for people
  sub->add_option("--daemon", worker.daemon)->required();
  sub->add_option("--job", worker.job)->required();
  sub->add_option("--attempt", worker.attempt)->required();
  sub->add_option("--run", worker.run)->required();
  sub->add_option("--process", worker.process)->required();
  sub->add_option("--processes", worker.processes)->required();
  sub->add_option("--peer-host", worker.peer_host);
  sub->add_option("--identity-fd", worker.identity_fd);
  sub->add_flag("--parent-only", worker.parent_only);

  if (const char* const without = FindWithoutValue(argc, argv); without != nullptr) {
    std::cerr << "oneflow: '" << without << "' has no value; 'oneflow --help' shows what there is\n";
    return 2;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return ReportUsage(app, error, argc, argv);
  }
  return command();
}

}  // namespace
}  // namespace oneflow

int main(int argc, char** argv) {
  FLAGS_logtostderr = true;
  setenv("GRPC_VERBOSITY", "NONE", 0);  // what gRPC would say of an error, our own message says
  google::InitGoogleLogging(argv[0]);
  return oneflow::Main(argc, argv);
}
