// The `oneflow` command: parses arguments, calls one command, prints its error once. Exit codes: 0 done, 1 failed, 2 wrong usage,
// 130 interrupted.
#include <functional>
#include <iostream>

#include "CLI/CLI.hpp"
#include "glog/logging.h"
#include "tools/cli/commands.h"
#include "tools/daemon/daemon_main.h"
#include "tools/scheduler/scheduler_main.h"
#include "tools/worker/worker_main.h"

namespace oneflow {
namespace {

// A flag that is another spelling of --set FIELD=VALUE.
void AddFieldFlag(CLI::App& app, std::vector<std::string>& fields, const std::string& flag, const std::string& field,
                  const std::string& help) {
  app.add_option_function<std::string>(
      flag, [&fields, field](const std::string& value) { fields.push_back(absl::StrCat(field, "=", value)); }, help);
}

void AddJob(CLI::App& app, JobArguments& job) {
  app.add_option("job", job.config, "job config (protobuf text)")->required();
  app.add_option("--set", job.sets, "override a field of the config: path.to.field=value; may be repeated")
      ->allow_extra_args(false);
  AddFieldFlag(app, job.fields, "--cluster", "cluster.processes", "number of processes");
}

void AddScheduler(CLI::App& app, std::string& address) {
  app.add_option("--scheduler", address, "address of the scheduler")->capture_default_str();
}

int Report(const absl::Status& status) {
  if (status.ok()) return 0;
  std::cerr << "oneflow: " << status.message() << "\n";
  return absl::IsCancelled(status) ? 130 : 1;
}

int Main(int argc, char** argv) {
  CLI::App app("a distributed deep-learning engine", "oneflow");
  app.require_subcommand(1);
  std::function<int()> command;
  const auto add = [&](CLI::App& parent, const char* name, const char* help, std::function<int()> run) {
    CLI::App* const sub = parent.add_subcommand(name, help);
    sub->callback([&command, run = std::move(run)] { command = run; });
    return sub;
  };

  RunArguments run;
  CLI::App* sub =
      add(app, "run", "train a job on an embedded cluster of this machine", [&] { return Report(RunCommand(run)); });
  AddJob(*sub, run.job);
  sub->add_option("--metrics", run.metrics, "write one JSON object per step to this file");
  sub->add_option("--scheduler", run.scheduler, "use this running scheduler instead of an embedded cluster");
  AddFieldFlag(*sub, run.job.fields, "--weights", "weights", "safetensors file to start from");
  AddFieldFlag(*sub, run.job.fields, "--save-weights", "save_weights", "safetensors file to write at the end");
  AddFieldFlag(*sub, run.job.fields, "--save-initial-weights", "save_initial_weights",
               "the same before the first step");
  AddFieldFlag(*sub, run.job.fields, "--save-gradients", "save_gradients", "gradients of the last step");

  RunArguments generate;
  generate.kind = JobKind::kGenerate;
  sub = add(app, "generate", "continue a text with a trained model", [&] { return Report(RunCommand(generate)); });
  AddJob(*sub, generate.job);
  sub->add_option("--scheduler", generate.scheduler, "use this running scheduler instead of an embedded cluster");
  AddFieldFlag(*sub, generate.job.fields, "--weights", "weights", "safetensors file of the trained model");
  sub->add_option_function<std::string>(
      "--prompt",
      [&](const std::string& text) { generate.job.fields.push_back(absl::StrCat("generate.prompt=", text)); },
      "text to continue");
  AddFieldFlag(*sub, generate.job.fields, "--tokens", "generate.tokens", "how many bytes");
  AddFieldFlag(*sub, generate.job.fields, "--temperature", "generate.temperature", "0: always the likeliest");

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
  sub = add(*plan, "show", "print a plan: ranks, memory, registers, actors",
            [&] { return Report(PlanShowCommand(show)); });
  sub->add_option("file", show.config, "plan file, or job config *.pbtxt")->required();
  sub->add_option("--set", show.sets, "override a field of the config")->allow_extra_args(false);

  std::string scheduler = SchedulerArgs().address;
  JobArguments submit;
  sub = add(app, "submit", "submit a job to a running scheduler",
            [&] { return Report(SubmitCommand(submit, scheduler)); });
  AddJob(*sub, submit);
  AddScheduler(*sub, scheduler);
  AddScheduler(*add(app, "jobs", "list jobs", [&] { return Report(JobsCommand(scheduler)); }), scheduler);
  int64_t job = 0;
  sub = add(app, "logs", "print what the workers of a job wrote", [&] { return Report(LogsCommand(scheduler, job)); });
  sub->add_option("job", job, "number of the job")->required();
  AddScheduler(*sub, scheduler);
  sub = add(app, "cancel", "cancel a job", [&] { return Report(CancelCommand(scheduler, job)); });
  sub->add_option("job", job, "number of the job")->required();
  AddScheduler(*sub, scheduler);

  SchedulerArgs scheduler_args;
  sub = add(app, "scheduler", "serve as the scheduler of a cluster", [&] { return SchedulerMain(scheduler_args); });
  sub->add_option("--address", scheduler_args.address, "host:port to listen on")->capture_default_str();
  sub->add_option("--db", scheduler_args.db, "file of jobs and events")->capture_default_str();
  sub->add_option("--ready-fd", scheduler_args.ready_fd, "descriptor that takes the address once it serves");

  DaemonArgs daemon;
  sub = add(app, "daemon", "offer this machine's devices to a scheduler", [&] { return DaemonMain(daemon); });
  sub->add_option("--scheduler", daemon.scheduler, "address of the scheduler")->capture_default_str();
  sub->add_option("--name", daemon.name, "unique in the cluster; default: the host's name");
  sub->add_option("--cpu-devices", daemon.cpu_devices, "cpu devices to offer")->capture_default_str();
  sub->add_option("--cuda-devices", daemon.cuda_devices, "cuda devices to offer")->capture_default_str();
  sub->add_option("--cores", daemon.cores, "cores for the cpu devices; 0: all");
  sub->add_option("--work-dir", daemon.work_dir, "directory of the workers' logs; default: a temporary one");
  sub->add_option("--peer-host", daemon.peer_host, "where workers listen for workers of other daemons")
      ->capture_default_str();
  sub->add_option("--ready-fd", daemon.ready_fd, "descriptor that takes a line once it is registered");

  WorkerArgs worker;
  sub = add(app, "worker", "one process of a job; started by a daemon", [&] { return WorkerMain(worker); });
  sub->group("");  // not for people
  sub->add_option("--daemon", worker.daemon)->required();
  sub->add_option("--job", worker.job)->required();
  sub->add_option("--epoch", worker.epoch)->required();
  sub->add_option("--process", worker.process)->required();
  sub->add_option("--processes", worker.processes)->required();
  sub->add_option("--peer-host", worker.peer_host);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : 2;
  }
  return command();
}

}  // namespace
}  // namespace oneflow

int main(int argc, char** argv) {
  FLAGS_logtostderr = true;
  google::InitGoogleLogging(argv[0]);
  return oneflow::Main(argc, argv);
}
