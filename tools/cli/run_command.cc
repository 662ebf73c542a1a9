// `oneflow run` and `oneflow generate`.
#include <algorithm>
#include <iostream>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "oneflow_core/ops/ops.h"
#include "tools/cli/commands.h"
#include "tools/cli/follow_job.h"
#include "tools/control/cluster/embedded.h"

namespace oneflow {
namespace {

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
  const OpRegistry ops = StandardOps();
  OF_ASSIGN_OR_RETURN(SourcedConfig config, arguments.job.Load());
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

}  // namespace

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

absl::StatusOr<SourcedConfig> JobArguments::Load() const {
  OF_ASSIGN_OR_RETURN(SourcedConfig loaded, LoadConfig(config, sets));
  for (const FieldFlag& flag : fields) {
    const std::string assignment = absl::StrCat(flag.field, "=", flag.value),
                      place = absl::StrCat(flag.flag, " ", flag.value);
    for (const std::string& set : sets) {
      if (set == assignment || !absl::StartsWith(set, absl::StrCat(flag.field, "="))) continue;
      return absl::InvalidArgumentError(absl::StrCat(place, " and --set ", set, " contradict one another"));
    }
    OF_RETURN_IF_ERROR(ApplyOverride(assignment, loaded, place));
  }
  return loaded;
}

int RunCommand(const RunArguments& arguments) {
  Interrupt interrupt;  // until the cluster has stopped: a second Ctrl-C does not wait for that
  std::unique_ptr<EmbeddedCluster> cluster;
  return Report(Run(arguments, interrupt, cluster));  // the user reads why before the cluster stops
}

}  // namespace oneflow
