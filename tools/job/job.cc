#include "tools/job/job.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>

#include "absl/strings/match.h"
#include "actor/checkpoint/safetensors.h"
#include "actor/data/source.h"
#include "compiler/lower/compile.h"
#include "compiler/lower/program.h"
#include "compiler/points.h"
#include "oneflow_core/data/data_kind.h"
#include "oneflow_core/graph_text.h"
#include "oneflow_core/ops/ops.h"
#include "proto/plan.pb.h"
#include "tools/job/byte_text.h"
#include "tools/job/cluster.h"
#include "tools/job/compress.h"
#include "tools/job/data.h"
#include "tools/job/evaluation.h"
#include "tools/job/fallbacks.h"
#include "tools/job/field_rules.h"
#include "tools/job/kernel_scratch.h"
#include "tools/job/meshes.h"
#include "tools/job/offload.h"
#include "tools/job/optimizer.h"
#include "tools/job/outputs.h"
#include "tools/job/phases.h"
#include "tools/job/pipeline.h"
#include "tools/job/plugins.h"
#include "tools/job/points.h"
#include "tools/job/program.h"
#include "tools/job/ramp.h"
#include "tools/job/schedule.h"
#include "tools/job/slots.h"
#include "tools/job/sync.h"
#include "tools/job/validate.h"
#include "tools/job/visible_text.h"
#include "tools/job/zero.h"

namespace oneflow {
namespace {

DType TypeOf(pb::Precision::Type type) {
  if (type == pb::Precision::F16) return DType::kFloat16;
  return type == pb::Precision::BF16 ? DType::kBFloat16 : DType::kFloat32;
}

PrecisionOptions PrecisionOf(const pb::Precision& said) {
  const pb::Precision precision = WithDefaults(said);
  PrecisionOptions options;
  options.compute = TypeOf(precision.compute());
  options.reduce = TypeOf(precision.reduce());
  options.accumulate = TypeOf(precision.accumulate());
  options.tf32 = precision.tf32();
  options.initial_scale = precision.initial_scale();
  options.growth_interval = precision.growth_interval();
  return options;
}

absl::StatusOr<CompileOptions> MakeOptions(const pb::JobConfig& said, const pb::JobSpec& spec) {
  const pb::JobConfig config = WithDefaults(said);
  CompileOptions options;
  options.job = config.name();
  OF_ASSIGN_OR_RETURN(options.mesh, ToMesh(config.mesh()));
  options.num_ranks = spec.processes() * spec.devices_per_process();
  options.ranks_per_process = spec.devices_per_process();
  options.device = spec.device() == "cuda" ? DeviceKind::kCuda : DeviceKind::kCpu;
  options.micro_batches = config.train().micro_batches();
  options.optimizer = OptimizerOf(said.train().optimizer());
  options.optimizer.adapters = AdaptersOf(said.train());
  options.schedule = ScheduleOf(said.train());
  if (config.train().has_average() && config.train().steps() > 0) {
    const pb::Average average = WithDefaults(config.train().average());
    options.average = {.decay = average.decay(), .evaluate = average.evaluate()};
  }
  options.seed = config.seed();
  options.check_replicas = config.check_replicas();
  options.fuse = !config.unfused();
  options.variable_bytes_per_device = config.cluster().variable_bytes_per_device();
  options.memory_bytes_per_device = config.cluster().memory_bytes_per_device();
  if (config.cluster().has_library_bytes_per_device()) {
    options.library_bytes_per_device = config.cluster().library_bytes_per_device();
  }
  if (config.recompute().what() != "none") options.recompute.what = config.recompute().what();
  options.recompute.first = config.recompute().layers();
  options.recompute.gathers = config.recompute().gathers();
  options.recompute.memory_bytes = BytesOfText(config.recompute().memory()).value_or(0);
  options.precision = PrecisionOf(config.precision());
  options.compress = CompressOf(config);
  options.local_training = LocalTrainingOf(config);
  options.zero = ZeroOf(config);
  options.offload = OffloadOf(config);
  if (const std::string& attention = config.sequence().attention(); !attention.empty()) {
    options.rings = attention == "ring"   ? RingUse::kWherePossible
                    : attention == "both" ? RingUse::kOuter
                                          : RingUse::kNever;
  }
  options.sequence_parallel = config.sequence().parallel();
  options.keep_gradients = !config.save_gradients().empty();
  options.checkpoints = config.has_checkpoint();
  return options;
}

// The first hosts' cores divided among their processes, or this machine's among all.
int CoresPerProcess(const HostGroup& first, const pb::JobSpec& spec) {
  if (first.cores == 0) return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / spec.processes());
  const int processes = static_cast<int>(first.devices / spec.devices_per_process());
  return std::max(1, first.cores / std::max(1, processes));
}

void FillCluster(const pb::JobConfig& config, const std::vector<HostGroup>& hosts, pb::JobSpec& spec) {
  const int devices = static_cast<int>(NumDevices(config));
  const int processes = static_cast<int>(NumProcesses(config));
  spec.set_processes(processes);
  spec.set_devices_per_process(devices / processes);
  spec.set_device(WithDefaults(config.cluster()).device());
  spec.set_emulated_ms_per_mb(config.cluster().emulated_ms_per_mb());
  spec.set_cores_per_process(config.cluster().has_cores_per_process() ? config.cluster().cores_per_process()
                                                                      : CoresPerProcess(hosts[0], spec));
}

// How many samples (or tokens) one training step consumes, for progress.
void FillSamples(const pb::JobConfig& config, const Program& program, pb::JobSpec& spec) {
  spec.set_sample_unit("samples");
  spec.set_samples_per_step(config.train().batch_size());
  spec.set_rows_per_step(config.train().batch_size());
  for (const Graph& graph : program) {
    for (NodeId id = 0; id < graph.num_nodes() && graph.name() == "train"; ++id) {
      const Node& node = graph.node(id);
      if (node.op != "read_data") continue;
      const int64_t micro_batches = WithDefaults(config.train()).micro_batches() * NumGroups(config);
      const Shape& shape = graph.value(node.outputs[0]).type.shape;
      const absl::StatusOr<DataKind> kind = FindDataKind(node.attrs.String("dataset"));
      if (!kind.ok()) continue;
      spec.set_sample_unit(kind->unit);
      spec.set_samples_per_step(micro_batches * (kind->counts_elements ? shape.count() : shape[0]));
      spec.set_rows_per_step(micro_batches * shape[0]);
    }
  }
}

// The steps of smaller batches, once a usual step's samples are known.
void FillRamp(const pb::JobConfig& config, pb::JobSpec& spec) {
  for (pb::Phase& phase : *spec.mutable_phases()) {
    if (!phase.has_train()) continue;
    for (const RampedSteps& steps : RampOf(config)) {
      pb::RampStage& stage = *phase.mutable_train()->add_ramp();
      stage.set_plan(steps.plan);
      stage.set_end_step(steps.end_step);
      stage.set_samples_per_step(spec.samples_per_step() / config.train().batch_size() * steps.batch);
      stage.set_rows_per_step(spec.rows_per_step() / config.train().batch_size() * steps.batch);
    }
  }
}

void FillRestart(const pb::Restart& restart, pb::JobSpec& spec) {
  if (restart.has_attempts()) spec.mutable_restart()->set_attempts(restart.attempts());
  if (restart.meshes().empty() && restart.least_devices() == 0) return;
  spec.mutable_restart()->set_wait_seconds(WithDefaults(restart).wait_seconds());
  spec.mutable_restart()->set_grow(restart.grow());
}

// What a job reads before its first step is opened, and where it writes after its last is looked at: nobody trains for
// a day to learn that a folder does not exist, or loses what a job reads to what it writes.
absl::Status CheckFiles(const SourcedConfig& config) {
  const pb::JobConfig& c = config.config;
  if (!c.weights().empty())
    OF_RETURN_IF_ERROR_AT(SafetensorsReader::Open(c.weights()).status(), config.Where("weights"));
  absl::Status status;
  ForEachPath(c, [&](const PathField& field) {
    if (!status.ok()) return;
    if (field.use == pb::FieldRule::WRITES_FILE) {
      status = Annotate(CheckWritable(field.path, /*may_be_stream=*/false), config.Where(field.what));
    }
  });
  OF_RETURN_IF_ERROR(status);
  return CheckApart(OutputsOf(config), InputsOf(config));
}

// Files that the job names and nothing has opened yet, because only a phase that the job lacks would read them. A wrong
// name is told all the same.
absl::Status CheckInputs(const SourcedConfig& config) {
  absl::Status status;
  ForEachPath(config.config, [&](const PathField& field) {
    if (field.use != pb::FieldRule::READS_FILE || !status.ok()) return;
    if (access(field.path.c_str(), R_OK) == 0) return;
    status = absl::NotFoundError(
        absl::StrCat(config.Where(field.what), ": '", field.path, "': cannot open: ", std::strerror(errno)));
  });
  return status;
}

// 8 MB: of a step with 300 acts some 400.
int64_t TraceBytes(const pb::Trace& trace) { return int64_t{WithDefaults(trace).megabytes()} * 1'000'000; }

// "pp=2,dp=2 in 2 processes".
std::string LayoutText(const Mesh& mesh, int processes) {
  const std::string axes = mesh.axes().empty() ? "1 device" : AxesText(mesh.axes());
  return absl::StrCat(axes, " in ", processes, processes == 1 ? " process" : " processes");
}

// What follows from the config's meshes and its cluster: the spec's shape, and how the program is compiled for it.
absl::StatusOr<CompileOptions> LayOut(const SourcedConfig& config, const Program& program, pb::JobSpec& spec) {
  const pb::JobConfig& c = config.config;
  OF_ASSIGN_OR_RETURN(std::vector<HostGroup> hosts, HostsOf(config));
  FillCluster(c, hosts, spec);
  OF_ASSIGN_OR_RETURN(CompileOptions options, MakeOptions(c, spec));
  OF_ASSIGN_OR_RETURN(options.pipeline, PipelineOf(config));
  OF_ASSIGN_OR_RETURN(options.shares, SharesOf(config, options.pipeline));
  for (const RampedSteps& stage : RampOf(c)) {
    SourcedConfig smaller = config;
    smaller.config.mutable_train()->set_batch_size(stage.batch);
    smaller.config.mutable_train()->set_micro_batches(stage.micro_batches);
    OF_ASSIGN_OR_RETURN(Schedule schedule, PipelineOf(smaller));
    options.own_steps[stage.plan] = {stage.micro_batches, std::move(schedule)};
  }
  if (const int batches = AnchorBatches(c); batches > 1) {
    const int micro_batches = std::max(1, options.micro_batches) * batches;
    SourcedConfig larger = config;
    larger.config.mutable_train()->set_micro_batches(micro_batches);
    OF_ASSIGN_OR_RETURN(Schedule schedule, PipelineOf(larger));
    options.own_steps[kAnchorPlan] = {micro_batches, std::move(schedule)};
  }
  if (!c.slots().empty()) {
    OF_ASSIGN_OR_RETURN_AT(options.slots, ReadSlots(c.slots()), config.Where("slots"));
  }
  options.hosts = std::move(hosts);
  OF_ASSIGN_OR_RETURN(options.plugins, LoadPlugins(config));
  options.kernel_scratch =
      ScratchOfKernels(options.device, std::max(1, spec.cores_per_process() / spec.devices_per_process()));
  OF_ASSIGN_OR_RETURN(const auto meshes, OwnMeshes(config));
  for (const Graph& graph : program) {
    const auto own = meshes.find(graph.name());
    if (own != meshes.end()) options.meshes.insert(*own);
  }
  spec.set_layout(LayoutText(options.mesh, spec.processes()));
  return options;
}

absl::StatusOr<FallbackJob> MakeFallback(const FallbackConfig& config, const Program& program) {
  FallbackJob fallback;
  OF_RETURN_IF_ERROR(ValidateConfig(config.config));
  pb::JobSpec spec;
  OF_ASSIGN_OR_RETURN(fallback.options, LayOut(config.config, program, spec));
  fallback.layout.set_processes(spec.processes());
  fallback.layout.set_devices_per_process(spec.devices_per_process());
  fallback.layout.set_cores_per_process(spec.cores_per_process());
  fallback.layout.set_layout(spec.layout());
  fallback.field = config.config.Where(config.field);
  fallback.may_fail = config.field == "restart.least_devices";
  return fallback;
}

absl::StatusOr<Job> Assemble(SourcedConfig config, Program program, const EvaluationCut& cut, bool opens_files = true) {
  Job job;
  OF_RETURN_IF_ERROR(CheckTexts(config));
  const pb::JobConfig& c = config.config;
  job.program = std::move(program);
  AddRamp(c, job.program);
  AddSyncSteps(c, job.program);
  AddCompressSteps(c, job.program);
  AddPointSteps(c, job.program);
  const uint64_t seed = WithDefaults(c).seed();
  OF_RETURN_IF_ERROR(PrepareData(seed, config, opens_files, job.program));
  if (opens_files) OF_RETURN_IF_ERROR(CheckFiles(config));
  OF_ASSIGN_OR_RETURN(job.options, LayOut(config, job.program, job.spec));
  if (opens_files) OF_RETURN_IF_ERROR(CheckInputs(config));
  OF_ASSIGN_OR_RETURN(const std::vector<FallbackConfig> smaller, FallbackConfigs(config));
  for (const FallbackConfig& fallback : smaller) {
    OF_ASSIGN_OR_RETURN_AT(job.fallbacks.emplace_back(), MakeFallback(fallback, job.program),
                           config.Where(fallback.field));
  }
  FillSamples(c, job.program, job.spec);
  FillRestart(c.restart(), job.spec);
  *job.spec.mutable_phases() = MakePhases(c, job.program, cut);
  FillRamp(c, job.spec);
  FillSync(c, job.spec);
  FillCompress(c, job.spec);
  FillPoints(c, job.spec);
  job.spec.set_name(c.name());
  job.spec.set_weights(c.weights());
  job.spec.set_seed(seed);
  if (c.has_checkpoint()) *job.spec.mutable_checkpoint() = MakeCheckpointRule(c.checkpoint());
  job.spec.set_tensorboard(c.tensorboard());
  job.spec.set_offload_folder(c.offload_folder());
  job.spec.set_uncaptured(c.uncaptured() || c.check_replicas());  // which looks at the device's memory at every node
  job.spec.set_tensorboard_histograms_every(c.tensorboard_histograms_every());
  if (c.has_stall()) {
    job.spec.mutable_stall()->set_seconds(WithDefaults(c.stall()).seconds());
    job.spec.mutable_stall()->set_abort(c.stall().abort());
  }
  if (c.has_trace()) job.spec.set_trace_bytes(TraceBytes(c.trace()));
  job.spec.set_config(c.DebugString());
  job.config = std::move(config);
  return job;
}

// Leaves the files out on which no layout depends. Of a model's graphs the folder stays: who seals a job has made it.
absl::Status Seal(SourcedConfig& config) {
  pb::JobConfig& c = config.config;
  if (!c.plugins().empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(config.Where("plugins"), ": '", c.plugins(0), "' is not loaded: no library of a job is run here"));
  }
  const std::string& schedule = c.pipeline().schedule();
  const std::pair<const char*, std::string> contents[] = {
      {"cluster.device_table", c.cluster().device_table()},
      {"pipeline.costs", c.pipeline().costs()},
      {"pipeline.schedule", absl::StartsWith(schedule, "file:") ? schedule : std::string()}};
  for (const auto& [field, path] : contents) {
    if (path.empty()) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(config.Where(field), ": the plan follows from '", path, "', and no file of a job is opened here"));
  }
  c.clear_slots();
  c.clear_weights();
  c.clear_save_weights();
  c.clear_save_initial_weights();
  c.clear_trace();
  return absl::OkStatus();
}

// How the evaluation is cut, with a graph for its last samples in the program if they fill no batch.
absl::StatusOr<EvaluationCut> CutWithRest(const SourcedConfig& config, const OpRegistry& ops, Program& program,
                                          std::vector<std::string>& remarks) {
  OF_ASSIGN_OR_RETURN_AT(EvaluationCut cut, CutEvaluation(config.config, program), config.Where("evaluate"));
  if (cut.rest == 0) return cut;
  if (config.config.model().has_graph()) {
    OF_RETURN_IF_ERROR_AT(LeaveRestOut(cut, remarks), config.Where("evaluate"));
    return cut;
  }
  pb::JobConfig smaller = config.config;
  smaller.mutable_evaluate()->set_batch_size(static_cast<int32_t>(cut.rest));
  OF_ASSIGN_OR_RETURN_AT(Program rest, BuildProgram(smaller, ops), config.Where("evaluate"));
  OF_RETURN_IF_ERROR(AdaptProgram(config, ops, rest));
  AddRest(cut, std::move(rest), program);
  return cut;
}

void NameAfterFile(SourcedConfig& config) {
  if (config.config.name().empty())
    config.config.set_name(VisibleText(std::filesystem::path(config.file).stem().string()));
}

}  // namespace

absl::StatusOr<Job> MakeJob(SourcedConfig config, JobKind kind, const OpRegistry& ops) {
  if (kind == JobKind::kSealed) OF_RETURN_IF_ERROR(Seal(config));
  OF_RETURN_IF_ERROR(ValidateConfig(config));
  NameAfterFile(config);
  MakePathsAbsolute(config.config);
  if (kind == JobKind::kGenerate) {
    if (!config.config.has_generate()) {
      return absl::InvalidArgumentError(
          absl::StrCat(config.Where("generate"), ": is missing, there is nothing to generate"));
    }
    if (config.config.weights().empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(config.Where("weights"), ": is missing; generation starts from saved weights"));
    }
    config.config.mutable_train()->set_steps(0);
    config.config.clear_checkpoint();
    config.config.clear_save_weights();
    config.config.clear_save_initial_weights();
    config.config.clear_save_gradients();
    config.config.mutable_train()->clear_average();
    config.config.mutable_train()->clear_ramp();
  }
  OF_ASSIGN_OR_RETURN_AT(Program program, BuildProgram(config.config, ops), config.Where("model"));
  OF_RETURN_IF_ERROR(AdaptProgram(config, ops, program));
  if (kind == JobKind::kGenerate) {
    program.erase(std::remove_if(program.begin(), program.end(), [](const Graph& g) { return g.name() != "generate"; }),
                  program.end());
  }
  EvaluationCut cut{.batches = 1};
  std::vector<std::string> remarks;
  if (kind == JobKind::kTrain && config.config.has_evaluate()) {
    OF_ASSIGN_OR_RETURN(cut, CutWithRest(config, ops, program, remarks));
  }
  OF_ASSIGN_OR_RETURN(Job job, Assemble(std::move(config), std::move(program), cut,
                                        /*opens_files=*/kind != JobKind::kSealed));
  job.remarks = std::move(remarks);
  return job;
}

absl::StatusOr<Job> MakeJob(SourcedConfig config, Program program) {
  MakePathsAbsolute(config.config);
  if (config.config.model().kind_case() == pb::Model::KIND_NOT_SET)
    config.config.mutable_model()->set_graph("(program)");  // no path: the graphs are here
  OF_RETURN_IF_ERROR(ValidateConfig(config));
  NameAfterFile(config);
  OF_RETURN_IF_ERROR(AdaptProgram(config, StandardOps(), program));
  EvaluationCut cut;
  std::vector<std::string> remarks;
  if (config.config.has_evaluate()) {
    OF_ASSIGN_OR_RETURN_AT(cut, CutEvaluation(config.config, program), config.Where("evaluate"));
    OF_RETURN_IF_ERROR_AT(LeaveRestOut(cut, remarks), config.Where("evaluate"));
  }
  OF_ASSIGN_OR_RETURN(Job job, Assemble(std::move(config), std::move(program), cut));
  job.remarks = std::move(remarks);
  return job;
}

namespace {

absl::StatusOr<pb::Fallback> CompileFallback(const FallbackJob& fallback, const Program& program,
                                             const OpRegistry& ops) {
  OF_ASSIGN_OR_RETURN(const pb::PlanSet plan, Compile(program, fallback.options, ops));
  pb::Fallback compiled = fallback.layout;
  OF_ASSIGN_OR_RETURN(*compiled.mutable_plan(), SerializePlan(plan));
  compiled.set_plan_hash(PlanHash(compiled.plan()));
  return compiled;
}

// Those that a job does not name itself are left out where they do not compile: too large for the devices, say.
absl::Status CompileFallbacks(Job& job, const OpRegistry& ops) {
  job.spec.clear_fallbacks();
  for (const FallbackJob& fallback : job.fallbacks) {
    absl::StatusOr<pb::Fallback> compiled = CompileFallback(fallback, job.program, ops);
    const std::string where = absl::StrCat(fallback.field, ": ", fallback.layout.layout());
    if (compiled.ok()) {
      *job.spec.add_fallbacks() = *std::move(compiled);
    } else if (fallback.may_fail) {
      job.warnings.push_back(absl::StrCat(where, " is left out: ", compiled.status().message()));
    } else {
      return Annotate(compiled.status(), where);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<pb::PlanSet> CompileJob(Job& job, const OpRegistry& ops) {
  job.warnings.clear();
  OF_RETURN_IF_ERROR(CheckGroups(job.config, job.options.optimizer, job.program, ops));
  absl::StatusOr<pb::PlanSet> compiled = Compile(job.program, job.options, ops, &job.warnings);
  if (compiled.status().code() == absl::StatusCode::kFailedPrecondition && HasDefaultSchedule(job.config.config)) {
    return absl::FailedPreconditionError(absl::StrCat(
        compiled.status().message(), "; the order is that of pipeline.schedule '1f1b', which pipelines on ",
        "cuda devices have unless the job names another, or 'credits' for none"));
  }
  OF_ASSIGN_OR_RETURN(pb::PlanSet plan, std::move(compiled));
  OF_ASSIGN_OR_RETURN(*job.spec.mutable_plan(), SerializePlan(plan));
  job.spec.set_plan_hash(PlanHash(job.spec.plan()));
  OF_RETURN_IF_ERROR(CompileFallbacks(job, ops));
  job.spec.clear_graphs();
  for (const Graph& graph : job.program) {
    std::string text = GraphToText(graph);
    if (!IsUtf8(text)) {
      return absl::InvalidArgumentError(
          absl::StrCat("graph '", VisibleText(graph.name()), "': has names or texts that are not UTF-8"));
    }
    job.spec.add_graphs(std::move(text));
  }
  return plan;
}

absl::Status CompleteSpec(Job& job, const OpRegistry& ops) { return CompileJob(job, ops).status(); }

absl::StatusOr<pb::Program> CompileToProgram(Job& job, const OpRegistry& ops) {
  OF_ASSIGN_OR_RETURN(const pb::PlanSet plan, CompileJob(job, ops));
  return ProgramOf(plan, std::nullopt, job.spec.plan_hash());
}

}  // namespace oneflow
