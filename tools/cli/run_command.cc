// `oneflow run` and `oneflow generate`.
#include <iostream>
#include <memory>
#include <utility>

#include "tools/cli/commands.h"
#include "tools/cli/follow_job.h"
#include "tools/cli/report.h"
#include "tools/control/cluster/embedded.h"
#include "tools/job/plugins.h"

namespace oneflow {
namespace {

struct RunArguments {
  JobArguments job;
  JobKind kind = JobKind::kTrain;
  SchedulerArguments scheduler;
  std::string metrics;    // file for one JSON object per training step; empty: none
  std::string page;       // where the embedded cluster has its page: PORT or HOST:PORT; empty: nowhere
  bool insecure = false;  // plain text is meant, also where the page is for other machines
  double lost_after = 0;  // seconds of silence of its processes (EmbeddedOptions); 0: as they have it
};

// All of `oneflow run` but the end of the cluster, which is left to the caller.
absl::Status Run(const RunArguments& arguments, Interrupt& interrupt, std::unique_ptr<EmbeddedCluster>& cluster) {
  if (!arguments.page.empty() && !arguments.scheduler.address.empty()) {
    return absl::InvalidArgumentError("--page is of an embedded cluster; that of --scheduler has its own");
  }
  if (arguments.lost_after > 0 && !arguments.scheduler.address.empty()) {
    return absl::InvalidArgumentError("--lost-after is of an embedded cluster; that of --scheduler has its own");
  }
  if (arguments.insecure && arguments.page.empty()) {
    return absl::InvalidArgumentError("--insecure is of the page of an embedded cluster, and no --page is asked for");
  }
  OF_ASSIGN_OR_RETURN(SourcedConfig config, arguments.job.Load());
  OF_ASSIGN_OR_RETURN(const OpRegistry ops, OpsOf(config));
  CompiledJob compiled;
  OF_ASSIGN_OR_RETURN(compiled.job, MakeJob(std::move(config), arguments.kind, ops));
  OF_ASSIGN_OR_RETURN(compiled.plan, CompileJob(compiled.job, ops));
  OF_RETURN_IF_ERROR(CheckWork(compiled.job));
  OF_RETURN_IF_ERROR(ResumeAsAsked(arguments.job, compiled.job));
  PrintWarnings(compiled.job);
  Following following = {.metrics = arguments.metrics};
  if (arguments.scheduler.address.empty()) {
    EmbeddedOptions options = ClusterOf(compiled.job.spec);
    options.page = arguments.page;
    options.insecure = arguments.insecure;
    options.lost_after = arguments.lost_after;
    OF_ASSIGN_OR_RETURN(cluster, EmbeddedCluster::Start(options));
    if (!cluster->page().empty()) std::cout << "the page is at " << cluster->page() << std::endl;
    following.scheduler = cluster->address();  // which does not come back if it is lost
  } else {
    OF_ASSIGN_OR_RETURN(following.scheduler, AddressOf(arguments.scheduler));
    following.patience = kSchedulerPatience;
  }
  return FollowJob(compiled, following, interrupt);
}

int RunJob(const RunArguments& arguments) {
  Interrupt interrupt;  // until the cluster has stopped: a second Ctrl-C does not wait for that
  std::unique_ptr<EmbeddedCluster> cluster;
  return Report(Run(arguments, interrupt, cluster));  // the user reads why before the cluster stops
}

RunFunction DeclareRun(CLI::App& app, ParsedArguments& arguments) {
  RunArguments& run = arguments.New<RunArguments>();
  AddJob(app, run.job);
  app.add_option("--metrics", run.metrics, "write one JSON object per step to this file");
  AddScheduler(app, run.scheduler, "use this running scheduler instead of an embedded cluster");
  AddPage(app, run.page);
  app.add_flag("--insecure", run.insecure, "serve the page to other machines in plain text");
  AddLostAfter(app, run.lost_after, kLostAfterHelp);
  AddResume(app, run.job);
  AddFieldFlag(app, run.job.fields, "--weights", "weights", "safetensors file to start from");
  AddFieldFlag(app, run.job.fields, "--save-weights", "save_weights", "safetensors file to write at the end");
  AddFieldFlag(app, run.job.fields, "--save-initial-weights", "save_initial_weights", "the same before the first step");
  AddFieldFlag(app, run.job.fields, "--save-gradients", "save_gradients", "gradients of the last step");
  AddFieldFlag(app, run.job.fields, "--trace", "trace.file", "write what every actor did, for Perfetto and `trace`");
  return [&run] { return RunJob(run); };
}

RunFunction DeclareGenerate(CLI::App& app, ParsedArguments& arguments) {
  RunArguments& generate = arguments.New<RunArguments>({.kind = JobKind::kGenerate});
  AddJob(app, generate.job);
  AddScheduler(app, generate.scheduler, "use this running scheduler instead of an embedded cluster");
  AddFieldFlag(app, generate.job.fields, "--weights", "weights", "safetensors file of the trained model");
  AddFieldFlag(app, generate.job.fields, "--prompt", "generate.prompt", "text to continue");
  AddFieldFlag(app, generate.job.fields, "--tokens", "generate.tokens", "how many bytes");
  AddFieldFlag(app, generate.job.fields, "--temperature", "generate.temperature", "0: always the likeliest");
  return [&generate] { return RunJob(generate); };
}

}  // namespace

std::vector<Command> RunCommands() {
  return {
      {"run", "train a job on an embedded cluster of this machine", DeclareRun},
      {"generate", "continue a text with a trained model", DeclareGenerate},
  };
}

}  // namespace oneflow
