#include "tools/control/scheduler/spec.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/code_choices.h"
#include "compiler/local_training.h"
#include "compiler/lower/compile.h"
#include "compiler/lower/plan_reader.h"
#include "compiler/points.h"
#include "glog/logging.h"
#include "oneflow_core/status.h"
#include "oneflow_core/zones.h"
#include "proto/plan.pb.h"

namespace oneflow {
namespace {

// More than any cluster has; what is allocated for a job grows with them.
constexpr int kMostProcesses = 1 << 16;
constexpr int kMostDevices = 1 << 10;  // of a daemon or a process
constexpr int kMostLinks = 1 << 10;    // of a machine
constexpr int64_t kMostBytes = int64_t{1} << 60;
constexpr int kMostCores = 1 << 14;
constexpr int kMostPhases = 1 << 20;
constexpr size_t kMostNameBytes = 200;
constexpr int kMostAttempts = 1000;
constexpr int kMostFallbacks = 16;
constexpr double kMostWaitSeconds = 86400;
constexpr int kMostPriority = 1000;
constexpr int64_t kMostTraceBytes = int64_t{1} << 30;  // of a worker, taken when it starts

absl::Status ValidateCount(absl::string_view field, int64_t value, int64_t least, int64_t most) {
  if (value < least) {
    return absl::InvalidArgumentError(absl::StrCat(field, " is ", value, "; it must be at least ", least));
  }
  if (value > most) return absl::InvalidArgumentError(absl::StrCat(field, " is ", value, "; it may be up to ", most));
  return absl::OkStatus();
}

// Names are shown to people, in tables and errors.
absl::Status ValidateName(absl::string_view field, absl::string_view name) {
  if (name.empty()) return absl::InvalidArgumentError(absl::StrCat(field, " is empty"));
  if (name.size() > kMostNameBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " has ", name.size(), " bytes; it may have up to ", kMostNameBytes));
  }
  if (std::any_of(name.begin(), name.end(), [](char c) { return absl::ascii_iscntrl(c); })) {
    return absl::InvalidArgumentError(absl::StrCat(field, " '", absl::CHexEscape(name), "' has control characters"));
  }
  return absl::OkStatus();
}

absl::Status ValidateShape(const pb::JobSpec& spec) {
  OF_RETURN_IF_ERROR(ValidateName("name", spec.name()));
  OF_RETURN_IF_ERROR(ValidateCount("processes", spec.processes(), 1, kMostProcesses));
  OF_RETURN_IF_ERROR(ValidateCount("devices_per_process", spec.devices_per_process(), 1, kMostDevices));
  OF_RETURN_IF_ERROR(ValidateCount("cores_per_process", spec.cores_per_process(), 0, kMostCores));
  OF_RETURN_IF_ERROR(ValidateCount("the number of phases", spec.phases_size(), 0, kMostPhases));
  if (spec.device() != "cpu" && spec.device() != "cuda") {
    return absl::InvalidArgumentError(absl::StrCat("device is '", spec.device(), "'; it may be 'cpu' or 'cuda'"));
  }
  if (spec.trace_bytes() < 0 || spec.trace_bytes() > kMostTraceBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("trace_bytes is ", spec.trace_bytes(), "; it may be up to ", kMostTraceBytes));
  }
  if (spec.restart().attempts() < 0 || spec.restart().attempts() > kMostAttempts) {
    return absl::InvalidArgumentError(
        absl::StrCat("restart.attempts is ", spec.restart().attempts(), "; it may be up to ", kMostAttempts));
  }
  return absl::OkStatus();
}

// Every process must serve as many ranks of the plan as the cluster gives it devices.
absl::Status ValidateRanks(const pb::JobSpec& spec, const pb::PlanSet& plan) {
  const pb::JobHosts& hosts = plan.hosts();
  if (hosts.device() != spec.device()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the plan is for '", hosts.device(), "' devices; the job asks for '", spec.device(), "' devices"));
  }
  if (hosts.ranks_per_process() != spec.devices_per_process() ||
      int64_t{hosts.num_ranks()} != int64_t{spec.processes()} * spec.devices_per_process()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the plan has ", hosts.num_ranks(), " ranks, ", hosts.ranks_per_process(), " per process; the job has ",
        spec.processes(), " processes of ", spec.devices_per_process(), " devices"));
  }
  return absl::OkStatus();
}

absl::Status ValidateRun(const std::string& name, int64_t first_step, int64_t steps, const pb::PlanSet& plan) {
  if (steps < 0) return absl::InvalidArgumentError(absl::StrCat("steps is ", steps, "; it must not be negative"));
  if (first_step < 0) {
    return absl::InvalidArgumentError(absl::StrCat("first_step is ", first_step, "; it must not be negative"));
  }
  for (const pb::ClassPlan& candidate : plan.plans()) {
    if (candidate.name() == name) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("the plan set has no plan '", name, "'"));
}

absl::Status ValidateRun(const pb::RunPlan& run, const pb::PlanSet& plan) {
  OF_RETURN_IF_ERROR(ValidateRun(run.plan(), run.first_step(), run.steps(), plan));
  if (run.rest_plan().empty()) return absl::OkStatus();
  if (run.rest_row() < 0 || !(run.rest_weight() > 0 && run.rest_weight() <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat("a rest that begins with row ", run.rest_row(), " and counts ",
                                                   run.rest_weight(), " beside a whole batch is none"));
  }
  return ValidateRun(run.rest_plan(), 0, 1, plan);
}

absl::Status ValidateRamp(const pb::TrainLoop& loop, const pb::PlanSet& plan) {
  int64_t begin = 0;
  for (const pb::RampStage& stage : loop.ramp()) {
    OF_RETURN_IF_ERROR(ValidateRun(stage.plan(), 0, stage.end_step() - begin, plan));
    if (stage.end_step() <= begin || stage.samples_per_step() < 0 || stage.rows_per_step() < 0) {
      return absl::InvalidArgumentError(absl::StrCat("steps ", begin, " to ", stage.end_step(), " of plan '",
                                                     stage.plan(), "' with ", stage.samples_per_step(), " samples in ",
                                                     stage.rows_per_step(), " rows are no stage of a ramp"));
    }
    begin = stage.end_step();
  }
  return absl::OkStatus();
}

absl::Status ValidateChoice(const pb::ChoiceRule& rule, const pb::PlanSet& plan) {
  if (rule.every() < 1 || rule.window() < 1 || rule.window() > rule.every() || rule.first_step() < 0) {
    return absl::InvalidArgumentError(absl::StrCat("a choice every ", rule.every(), " steps from step ",
                                                   rule.first_step(), " on, with a window of ", rule.window(),
                                                   ", is none"));
  }
  OF_RETURN_IF_ERROR(ValidateRun(rule.plan(), 0, rule.window(), plan));
  return ValidateRun(kChoicePlan, 0, 1, plan);
}

absl::Status ValidateSync(const pb::SyncRule& rule, const pb::PlanSet& plan) {
  if (rule.every() < 1 || rule.first_step() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a mean every ", rule.every(), " steps from step ", rule.first_step(), " on is none"));
  }
  for (const char* name : {kBeginPlan, kAdoptPlan, kOuterPlan, kFinishPlan}) {
    OF_RETURN_IF_ERROR(ValidateRun(name, 0, 1, plan));
  }
  return absl::OkStatus();
}

absl::Status ValidateLoop(const pb::TrainLoop& loop, const pb::PlanSet& plan) {
  OF_RETURN_IF_ERROR(ValidateRun(loop.plan(), 0, loop.steps(), plan));
  OF_RETURN_IF_ERROR(ValidateRamp(loop, plan));
  if (loop.has_sync()) OF_RETURN_IF_ERROR(ValidateSync(loop.sync(), plan));
  if (loop.has_choice()) OF_RETURN_IF_ERROR(ValidateChoice(loop.choice(), plan));
  if (loop.points().half()) OF_RETURN_IF_ERROR(ValidateRun(kHalfPlan, 0, 1, plan));
  if (loop.points().anchors()) OF_RETURN_IF_ERROR(ValidateRun(kAnchorPlan, 0, 1, plan));
  if (loop.evaluate_every() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("evaluate_every is ", loop.evaluate_every(), "; it must not be negative"));
  }
  if (!loop.has_evaluation()) return absl::OkStatus();
  return ValidateRun(loop.evaluation(), plan);
}

absl::Status ValidateCheckpoint(const pb::JobSpec& spec) {
  const bool resumes = spec.resume() || !spec.resume_from().empty();
  if (!spec.has_checkpoint()) {
    return resumes ? absl::InvalidArgumentError("it goes on from a checkpoint, but has no folder for them")
                   : absl::OkStatus();
  }
  const pb::CheckpointRule& rule = spec.checkpoint();
  for (const std::string* path : {&rule.path(), &spec.resume_from()}) {
    if ((path->empty() && path == &spec.resume_from()) || absl::StartsWith(*path, "/")) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("checkpoint path '", *path, "' is not absolute; workers run in another directory"));
  }
  if (rule.every() < 0 || rule.keep() < 0 || rule.keep_every() < 0) {
    return absl::InvalidArgumentError(absl::StrCat("checkpoints every ", rule.every(), " steps, ", rule.keep(),
                                                   " of them kept, and every ", rule.keep_every(),
                                                   " steps; none of these may be negative"));
  }
  return absl::OkStatus();
}

absl::Status ValidatePhase(const pb::Phase& phase, const pb::PlanSet& plan) {
  switch (phase.kind_case()) {
    case pb::Phase::kSave:
      if (!absl::StartsWith(phase.save().path(), "/")) {
        return absl::InvalidArgumentError(
            absl::StrCat("save path '", phase.save().path(), "' is not absolute; workers run in another directory"));
      }
      return absl::OkStatus();
    case pb::Phase::kTrace:
      if (!absl::StartsWith(phase.trace().path(), "/")) {
        return absl::InvalidArgumentError(
            absl::StrCat("trace path '", phase.trace().path(), "' is not absolute; workers run in another directory"));
      }
      return absl::OkStatus();
    case pb::Phase::kTrain:
      return ValidateLoop(phase.train(), plan);
    case pb::Phase::kRun:
      return ValidateRun(phase.run(), plan);
    case pb::Phase::KIND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("it says neither what to run nor what to save");
}

// What a plan says its ranks take is added up, to be held against what daemons have.
absl::Status ValidateMemory(const pb::PlanSet& plan) {
  for (int i = 0; i < plan.classes_size(); ++i) {
    const pb::RankClass& alike = plan.classes(i);
    for (int zone = 0; zone < alike.zones_size(); ++zone) {
      if (alike.zones(zone).bytes() >= 0) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("class ", i, ": a ", ZoneName(zone), " zone of ", alike.zones(zone).bytes(), " bytes"));
    }
    if (alike.host_bytes() < 0 || alike.library_bytes() < 0) {
      return absl::InvalidArgumentError(absl::StrCat("class ", i, ": ", alike.host_bytes(), " bytes of its host and ",
                                                     alike.library_bytes(), " of libraries"));
    }
  }
  return absl::OkStatus();
}

// Of one layout.
absl::Status ValidateLayout(const pb::JobSpec& spec) {
  OF_RETURN_IF_ERROR(ValidateShape(spec));
  if (const std::string hash = PlanHash(spec.plan()); hash != spec.plan_hash()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the plan's SHA-256 is ", hash, "; the spec says '", spec.plan_hash(), "'"));
  }
  pb::PlanSet plan;
  if (!plan.ParseFromString(spec.plan())) {
    return absl::InvalidArgumentError(
        absl::StrCat("the plan (", spec.plan().size(), " bytes) is not a serialised PlanSet"));
  }
  if (plan.version() != kPlanVersion) {
    return absl::InvalidArgumentError(
        absl::StrCat("the plan has format version ", plan.version(), "; this scheduler reads ", kPlanVersion));
  }
  OF_RETURN_IF_ERROR(ValidateRanks(spec, plan));
  OF_ASSIGN_OR_RETURN_AT(const PlanReader reader, PlanReader::Open(plan), "the plan");
  OF_RETURN_IF_ERROR_AT(CheckPlanIndices(plan, reader), "the plan");
  OF_RETURN_IF_ERROR_AT(ValidateMemory(plan), "the plan");
  for (const auto& [what, path] :
       {std::pair("weights", &spec.weights()), std::pair("tensorboard", &spec.tensorboard())}) {
    if (path->empty() || absl::StartsWith(*path, "/")) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(what, " path '", *path, "' is not absolute; workers run in another directory"));
  }
  if (spec.tensorboard_histograms_every() < 0) {
    return absl::InvalidArgumentError(absl::StrCat("tensorboard_histograms_every is ",
                                                   spec.tensorboard_histograms_every(), "; it must not be negative"));
  }
  OF_RETURN_IF_ERROR(ValidateCheckpoint(spec));
  if (spec.phases().empty()) return absl::InvalidArgumentError("the job has no phases");
  for (int i = 0; i < spec.phases_size(); ++i) {
    OF_RETURN_IF_ERROR_AT(ValidatePhase(spec.phases(i), plan), absl::StrCat("phase ", i));
  }
  return absl::OkStatus();
}

int64_t NumDevices(const pb::JobSpec& spec) { return int64_t{spec.processes()} * spec.devices_per_process(); }

// Numbers of bytes from outside are not negative (ValidateMemory), but may be any others.
int64_t Sum(int64_t a, int64_t b) { return a > kUnknownBytes - b ? kUnknownBytes : a + b; }

// What a process's ranks take of its machine's memory, and a rank of its device's: the most of any.
void AddMemory(const pb::PlanSet& plan, Gang& gang) {
  std::vector<int64_t> of_process(plan.hosts().num_ranks() / gang.devices_per_process, 0);
  const bool own_memory = plan.hosts().device() == "cuda";
  for (const pb::RankClass& alike : plan.classes()) {
    int64_t device = 0;
    for (const pb::ZoneBytes& zone : alike.zones()) device = Sum(device, zone.bytes());
    if (own_memory) gang.device_bytes = std::max(gang.device_bytes, Sum(device, alike.library_bytes()));
    for (const int rank : alike.ranks()) {
      int64_t& bytes = of_process[rank / gang.devices_per_process];
      bytes = Sum(bytes, own_memory ? alike.host_bytes() : Sum(alike.host_bytes(), device));
    }
  }
  gang.process_bytes = *std::max_element(of_process.begin(), of_process.end());
}

// Of one layout.
Gang GangOf(const pb::JobSpec& spec) {
  pb::PlanSet plan;
  CHECK(plan.ParseFromString(spec.plan()))
      << "job '" << spec.name() << "' was accepted with a plan that does not parse";
  Gang gang;
  gang.devices_per_process = spec.devices_per_process();
  int64_t left = spec.processes();
  for (const pb::HostsAlike& group : plan.hosts().groups()) {
    const int64_t on_each = group.devices() / spec.devices_per_process();
    for (int64_t i = 0; i < group.count() && left > 0; ++i) {
      gang.processes_of_host.push_back(std::min(left, on_each));
      left -= gang.processes_of_host.back();
    }
  }
  CHECK_EQ(left, 0) << "processes of job '" << spec.name() << "' that no host of its plan holds";
  AddMemory(plan, gang);
  return gang;
}

}  // namespace

absl::Status ValidateSpec(const pb::JobSpec& spec) {
  OF_RETURN_IF_ERROR(ValidateLayout(spec));
  OF_RETURN_IF_ERROR(ValidateCount("the number of fallbacks", spec.fallbacks_size(), 0, kMostFallbacks));
  const double wait = spec.restart().wait_seconds();
  if (!(wait >= 0 && wait <= kMostWaitSeconds)) {
    return absl::InvalidArgumentError(
        absl::StrCat("restart.wait_seconds is ", wait, "; it may be from 0 to ", kMostWaitSeconds));
  }
  for (int i = 1; i <= spec.fallbacks_size(); ++i) {
    const std::string fallback = absl::StrCat("fallback ", i);
    const pb::JobSpec smaller = OnLayout(spec, i);
    OF_RETURN_IF_ERROR_AT(ValidateLayout(smaller), fallback);
    if (NumDevices(smaller) < NumDevices(spec)) continue;
    return absl::InvalidArgumentError(absl::StrCat(fallback, ": takes ", NumDevices(smaller),
                                                   " devices, which are not fewer than the job's ", NumDevices(spec)));
  }
  return absl::OkStatus();
}

absl::Status ValidateHello(const pb::DaemonHello& hello) {
  OF_RETURN_IF_ERROR(ValidateName("the daemon's name", hello.name()));
  const std::string daemon = absl::StrCat("daemon '", hello.name(), "'");
  OF_RETURN_IF_ERROR_AT(ValidateName("its host", hello.host()), daemon);
  OF_RETURN_IF_ERROR_AT(ValidateName("its memory", hello.memory()), daemon);
  OF_RETURN_IF_ERROR_AT(ValidateCount("cpu_devices", hello.cpu_devices(), 0, kMostDevices), daemon);
  OF_RETURN_IF_ERROR_AT(ValidateCount("cuda_devices", hello.cuda_devices(), 0, kMostDevices), daemon);
  OF_RETURN_IF_ERROR_AT(ValidateCount("memory_bytes", hello.memory_bytes(), 0, kMostBytes), daemon);
  OF_RETURN_IF_ERROR_AT(ValidateCount("cuda_device_memory_bytes", hello.cuda_device_memory_bytes(), 0, kMostBytes),
                        daemon);
  OF_RETURN_IF_ERROR_AT(ValidateCount("the number of its links", hello.links_size(), 0, kMostLinks), daemon);
  for (const pb::NetworkLink& link : hello.links()) {
    OF_RETURN_IF_ERROR_AT(ValidateName("a link's name", link.name()), daemon);
    OF_RETURN_IF_ERROR_AT(ValidateName("a link's kind", link.kind()), daemon);
  }
  return Annotate(ValidateCount("the number of its workers", hello.workers_size(), 0, 4 * kMostDevices), daemon);
}

absl::Status ValidateWish(const pb::SubmitRequest& request) {
  OF_RETURN_IF_ERROR(ValidateName("user", request.user()));
  return ValidateCount("priority", request.priority(), -kMostPriority, kMostPriority);
}

AcceptedSpec Accept(pb::JobSpec spec) {
  AcceptedSpec accepted;
  accepted.gangs = GangsOf(spec);
  accepted.plans.push_back(std::make_shared<const std::string>(std::move(*spec.mutable_plan())));
  spec.clear_plan();
  for (pb::Fallback& fallback : *spec.mutable_fallbacks()) {
    accepted.plans.push_back(std::make_shared<const std::string>(std::move(*fallback.mutable_plan())));
    fallback.clear_plan();
  }
  accepted.spec = std::move(spec);
  return accepted;
}

pb::JobSpec OnLayout(pb::JobSpec spec, int fallback) {
  if (fallback > 0) {
    pb::Fallback& layout = *spec.mutable_fallbacks(fallback - 1);
    spec.set_plan(std::move(*layout.mutable_plan()));
    spec.set_plan_hash(layout.plan_hash());
    spec.set_processes(layout.processes());
    spec.set_devices_per_process(layout.devices_per_process());
    spec.set_cores_per_process(layout.cores_per_process());
    spec.set_layout(layout.layout());
  }
  spec.clear_fallbacks();
  return spec;
}

std::vector<std::string> PlanHashes(const pb::JobSpec& spec) {
  std::vector<std::string> hashes = {spec.plan_hash()};
  for (const pb::Fallback& fallback : spec.fallbacks()) hashes.push_back(fallback.plan_hash());
  return hashes;
}

std::vector<Gang> GangsOf(const pb::JobSpec& spec) {
  std::vector<Gang> gangs;
  for (int i = 0; i <= spec.fallbacks_size(); ++i) gangs.push_back(GangOf(OnLayout(spec, i)));
  return gangs;
}

}  // namespace oneflow
