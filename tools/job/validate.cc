#include "tools/job/validate.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/str_join.h"
#include "google/protobuf/descriptor.h"
#include "oneflow_core/data/data_kind.h"
#include "oneflow_core/models/model.h"
#include "tools/job/attributes.h"
#include "tools/job/byte_text.h"
#include "tools/job/checker.h"
#include "tools/job/cluster.h"
#include "tools/job/compress.h"
#include "tools/job/custom.h"
#include "tools/job/field_rules.h"
#include "tools/job/meshes.h"
#include "tools/job/offload.h"
#include "tools/job/optimizer.h"
#include "tools/job/points.h"
#include "tools/job/ramp.h"
#include "tools/job/schedule.h"
#include "tools/job/sync.h"
#include "tools/job/zero.h"

namespace oneflow {
namespace {

constexpr int64_t kMaxProcesses = 1024;  // also of those that follow from hosts

void Complain(const std::optional<FieldComplaint>& complaint, const std::string& of, Checker& check) {
  if (complaint.has_value()) check.Require(false, absl::StrCat(of, ".", complaint->field), complaint->what);
}

void CheckModel(const pb::JobConfig& c, Checker& check) {
  const ModelDef* const model = FindModel(KindNameOf(c.model()));
  if (model == nullptr) return;  // graphs
  if (model->check != nullptr) Complain(model->check(AttributesOfKind(c.model())), "model." + model->name, check);
  const bool reads_it = std::count(model->reads.begin(), model->reads.end(), KindNameOf(c.data())) > 0;
  check.Require(reads_it, "data",
                absl::StrCat("model '", model->name, "' reads ", absl::StrJoin(model->reads, " or "), ", so data.",
                             absl::StrJoin(model->reads, " or data."), " must be given"));
  check.Require(!c.has_generate() || model->generates, "generate", "only a language model generates text");
}

void CheckData(const pb::JobConfig& c, Checker& check) {
  const std::string data = KindNameOf(c.data());
  if (data.empty()) return;
  const absl::StatusOr<DataKind> kind = FindDataKind(data);
  if (!kind.ok() || kind->check == nullptr) return check.Take(kind.status());
  Complain(kind->check(AttributesOfKind(c.data()), c.has_evaluate()), "data." + kind->name, check);
}

void CheckCluster(const pb::JobConfig& c, Checker& check) {
  const int64_t of_mesh = NumDevices(c.mesh());
  check.Require(of_mesh > 0 && of_mesh <= 4096, "mesh",
                absl::StrCat("has ", of_mesh, " devices, at most 4096 are supported"));
  const absl::Status mesh = ToMesh(c.mesh()).status();
  check.Require(mesh.ok(), "mesh", mesh.message());
  if (check.status().ok()) check.Take(OwnMeshes(check.config()).status());
  const int64_t devices = NumDevices(c);
  check.Require(devices > 0 && devices <= 4096, "mesh",
                absl::StrCat("the job's meshes take ", devices, " devices, at most 4096 are supported"));
  const int64_t processes = NumProcesses(c);
  check.Require(processes <= kMaxProcesses, "cluster.processes",
                absl::StrCat("the job has ", processes, ", at most ", kMaxProcesses, " are supported"));
  if (!check.status().ok()) return;
  if (c.cluster().has_devices_per_process()) {
    check.Require(processes * c.cluster().devices_per_process() == devices, "cluster.devices_per_process",
                  absl::StrCat(processes, " processes of ", c.cluster().devices_per_process(), " devices make ",
                               processes * c.cluster().devices_per_process(), ", but the job has ", devices));
  } else {
    check.Require(devices % processes == 0, "cluster.processes",
                  absl::StrCat("the job's ", devices, " devices do not divide among ", processes, " processes"));
  }
  check.Require(
      c.cluster().device() != "cuda" || c.cluster().emulated_ms_per_mb() == 0, "cluster.emulated_ms_per_mb",
      absl::StrCat(c.cluster().emulated_ms_per_mb(), " is given, but only links of cpu devices are emulated"));
  if (check.status().ok()) check.Take(HostsOf(check.config()).status());
}

void CheckPipeline(const pb::Pipeline& pipeline, Checker& check) {
  const bool greedy = pipeline.schedule() == "greedy";
  check.Require(pipeline.chunks() == 0 || (!pipeline.schedule().empty() && pipeline.schedule() != "credits"),
                "pipeline.schedule", "chunks are given, but no schedule");
  check.Require(pipeline.costs().empty() || greedy, "pipeline.costs",
                pipeline.schedule().empty()
                    ? "only schedule 'greedy' takes them, and no pipeline.schedule is given"
                    : absl::StrCat("schedule '", pipeline.schedule(), "' takes none, 'greedy' does"));
  check.Require(pipeline.activations_mb() == 0 || !pipeline.costs().empty(), "pipeline.activations_mb",
                "needs pipeline.costs, a trace, which says what activations take");
}

void CheckPrecision(const pb::JobConfig& c, Checker& check) {
  const pb::Precision& precision = c.precision();
  const std::string compute = pb::Precision::Type_Name(precision.compute());
  check.Require(
      precision.reduce() == pb::Precision::F32 || precision.reduce() == precision.compute(), "precision.reduce",
      absl::StrCat(pb::Precision::Type_Name(precision.reduce()),
                   precision.compute() == pb::Precision::F32 ? " is narrower than precision.compute, which is "
                                                             : " is neither F32 nor precision.compute, which is ",
                   compute));
  check.Require(
      precision.accumulate() == pb::Precision::F32 || precision.accumulate() == precision.reduce(),
      "precision.accumulate",
      absl::StrCat(pb::Precision::Type_Name(precision.accumulate()), " is neither F32 nor precision.reduce, which is ",
                   pb::Precision::Type_Name(precision.reduce())));
  // A model that was declared elsewhere may ask for f16 itself.
  const bool scales = precision.compute() == pb::Precision::F16 || c.model().has_graph();
  const std::string in_vain = absl::StrCat("the loss is scaled where compute is F16, but it is ", compute);
  check.Require(scales || !precision.has_initial_scale(), "precision.initial_scale", in_vain);
  check.Require(scales || !precision.has_growth_interval(), "precision.growth_interval", in_vain);
}

void CheckRestart(const pb::JobConfig& c, Checker& check) {
  const pb::Restart& restart = c.restart();
  const bool once = restart.attempts() <= 1;
  check.Require(!once || restart.meshes().empty(), "restart.meshes", "no attempt follows the first (restart.attempts)");
  check.Require(!once || restart.least_devices() == 0, "restart.least_devices",
                "no attempt follows the first (restart.attempts)");
  check.Require(!restart.has_wait_seconds() || !restart.meshes().empty() || restart.least_devices() > 0,
                "restart.wait_seconds", "there are no fewer devices to go on with (meshes, least_devices)");
  check.Require(!restart.grow() || !restart.meshes().empty() || restart.least_devices() > 0, "restart.grow",
                "there are no fewer devices to grow from (meshes, least_devices)");
  check.Require(!restart.grow() || (c.has_checkpoint() && WithDefaults(c.checkpoint()).on_stop()), "restart.grow",
                "needs a checkpoint that is written when a job is asked to end (checkpoint.path, on_stop)");
}

void CheckTrain(const pb::JobConfig& c, Checker& check) {
  const pb::Train& train = c.train();
  const int64_t micro = WithDefaults(train).micro_batches();
  CheckPipeline(c.pipeline(), check);
  CheckRestart(c, check);
  const std::string& what = c.recompute().what();
  check.Require(c.recompute().layers() == 0 || (!what.empty() && what != "none"), "recompute.what",
                absl::StrCat(c.recompute().layers(), " layers are given, but nothing to compute again"));
  if (!c.recompute().memory().empty()) {
    check.Take(Annotate(BytesOfText(c.recompute().memory()).status(), "recompute.memory"));
    check.Require(c.recompute().layers() == 0, "recompute.layers", "not with recompute.memory, which says how many");
  }
  CheckPrecision(c, check);
  check.Require(train.batch_size() % micro == 0, "train.micro_batches",
                absl::StrCat("batch_size ", train.batch_size(), " is not a multiple of ", micro, " micro-batches"));
  if (check.status().ok()) CheckRamp(c, check);
  if (check.status().ok()) CheckSync(c, check);
  if (check.status().ok()) CheckCompress(c, check);
  if (check.status().ok()) CheckZero(c, check);
  if (check.status().ok()) CheckOffload(c, check);
  if (check.status().ok()) CheckPoints(c, check);
  CheckOptimizer(train.optimizer(), check);
  check.Require(!train.has_lora() || !train.lora().match().empty(), "train.lora.match", "is missing");
  check.Require(train.average().save_weights().empty() || train.steps() > 0, "train.average.save_weights",
                "there are no averages without training");
  check.Require(train.schedule().learning_rate() > 0 || train.steps() == 0, "train.schedule.learning_rate",
                "is missing");
  if (check.status().ok()) Complain(CheckSchedule(train), "train.schedule", check);
}

void CheckCheckpoint(const pb::JobConfig& c, Checker& check) {
  if (!c.has_checkpoint()) return;
  const pb::Checkpoint& checkpoint = c.checkpoint();
  check.Require(checkpoint.keep_every() == 0 || checkpoint.keep() > 0 || !checkpoint.has_keep(),
                "checkpoint.keep_every", "keep: 0 keeps all");
  check.Require(!checkpoint.best() || c.has_evaluate(), "checkpoint.best", "needs evaluations (evaluate)");
  check.Require(c.train().steps() > 0, "checkpoint", "there is nothing to save without training");
}

void CheckStop(const pb::JobConfig& c, Checker& check) {
  const pb::Stop& stop = c.train().stop();
  check.Require(stop.patience() == 0 || c.evaluate().every() > 0, "train.stop.patience",
                "counts evaluations, but there are none while training (evaluate.every)");
  check.Require(stop.least_gain() == 0 || stop.patience() > 0, "train.stop.least_gain", "without train.stop.patience");
}

void CheckRest(const pb::JobConfig& c, Checker& check) {
  check.Require(c.tensorboard_histograms_every() == 0 || !c.tensorboard().empty(), "tensorboard_histograms_every",
                "without a folder for them (tensorboard)");
  if (c.has_generate()) {
    check.Require(!c.generate().prompt().empty(), "generate.prompt",
                  "is empty; at least one byte is needed to begin with");
  }
  check.Require(c.save_gradients().empty() || c.train().steps() > 0, "save_gradients",
                "there are no gradients without training");
}

}  // namespace

absl::Status ValidateConfig(const SourcedConfig& config) {
  OF_RETURN_IF_ERROR(CheckFields(config));  // what follows computes with the fields
  Checker check(config);
  CheckCustom(config.config, check);
  if (!check.status().ok()) return check.status();
  CheckModel(config.config, check);
  CheckData(config.config, check);
  CheckCluster(config.config, check);
  CheckTrain(config.config, check);
  CheckStop(config.config, check);
  CheckCheckpoint(config.config, check);
  CheckRest(config.config, check);
  return check.status();
}

}  // namespace oneflow
