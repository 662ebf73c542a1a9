#include "tools/job/validate.h"

#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "google/protobuf/descriptor.h"
#include "tools/job/checker.h"
#include "tools/job/cluster.h"
#include "tools/job/field_rules.h"
#include "tools/job/meshes.h"

namespace oneflow {
namespace {

constexpr int64_t kMaxProcesses = 1024;  // also of those that follow from hosts

// "model", "data": the fields of one message of which a job has one.
std::string KindsOf(const google::protobuf::Descriptor& message) {
  const google::protobuf::OneofDescriptor& kinds = *message.FindOneofByName("kind");
  std::vector<std::string> names;
  for (int i = 0; i < kinds.field_count(); ++i) names.push_back(kinds.field(i)->name());
  return absl::StrJoin(names, ", ");
}

void CheckModel(const pb::JobConfig& c, Checker& check) {
  switch (c.model().kind_case()) {
    case pb::Model::kGpt: {
      const pb::Gpt& gpt = c.model().gpt();
      check.Require(gpt.heads() > 0 && gpt.width() % gpt.heads() == 0, "model.gpt.heads",
                    absl::StrCat("width ", gpt.width(), " is not a multiple of ", gpt.heads(), " heads"));
      check.Require(c.data().has_text(), "data", "a gpt model reads text, so data.text must be given");
      break;
    }
    case pb::Model::kConvnet: {
      const pb::ConvNet& net = c.model().convnet();
      check.Require(net.channels_size() == 0 || net.channels_size() == 2, "model.convnet.channels",
                    absl::StrCat("the network has 2 convolutions, but ", net.channels_size(), " sizes are given"));
      check.Require(c.data().has_images(), "data", "a convnet model reads images, so data.images must be given");
      break;
    }
    case pb::Model::kMlp:
      check.Require(c.data().has_images(), "data", "an mlp model reads images, so data.images must be given");
      break;
    case pb::Model::kMarginClassifier:
      check.Require(c.data().has_prototypes(), "data",
                    "a margin_classifier model reads prototypes, so data.prototypes must be given");
      break;
    case pb::Model::kWideDeep:
      check.Require(c.data().has_clicks(), "data", "a wide_deep model reads clicks, so data.clicks must be given");
      break;
    case pb::Model::kGraph:
      break;
    case pb::Model::KIND_NOT_SET:
      check.Require(false, "model", absl::StrCat("is missing: one of ", KindsOf(*pb::Model::descriptor())));
  }
}

void CheckData(const pb::JobConfig& c, Checker& check) {
  if (!c.data().has_images() || !c.has_evaluate()) return;
  const pb::Images& images = c.data().images();
  check.Require(!images.test_images().empty(), "data.images.test_images", "is missing, but evaluate is asked for");
  check.Require(!images.test_labels().empty(), "data.images.test_labels", "is missing, but evaluate is asked for");
}

void CheckCluster(const pb::JobConfig& c, Checker& check) {
  const int64_t of_mesh = NumDevices(c.mesh());
  check.Require(of_mesh > 0 && of_mesh <= 4096, "mesh",
                absl::StrCat("has ", of_mesh, " devices, at most 4096 are supported"));
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
  // A model that was declared elsewhere may ask for f16 itself.
  const bool scales = precision.compute() == pb::Precision::F16 || c.model().has_graph();
  const std::string in_vain = absl::StrCat("the loss is scaled where compute is F16, but it is ", compute);
  check.Require(scales || !precision.has_initial_scale(), "precision.initial_scale", in_vain);
  check.Require(scales || !precision.has_growth_interval(), "precision.growth_interval", in_vain);
}

void CheckRestart(const pb::Restart& restart, Checker& check) {
  const bool once = restart.attempts() <= 1;
  check.Require(!once || restart.meshes().empty(), "restart.meshes", "no attempt follows the first (restart.attempts)");
  check.Require(!once || restart.least_devices() == 0, "restart.least_devices",
                "no attempt follows the first (restart.attempts)");
  check.Require(!restart.has_wait_seconds() || !restart.meshes().empty() || restart.least_devices() > 0,
                "restart.wait_seconds", "there are no fewer devices to go on with (meshes, least_devices)");
}

void CheckTrain(const pb::JobConfig& c, Checker& check) {
  const pb::Train& train = c.train();
  const int64_t micro = WithDefaults(train).micro_batches();
  CheckPipeline(c.pipeline(), check);
  CheckRestart(c.restart(), check);
  const std::string& what = c.recompute().what();
  check.Require(c.recompute().layers() == 0 || (!what.empty() && what != "none"), "recompute.what",
                absl::StrCat(c.recompute().layers(), " layers are given, but nothing to compute again"));
  CheckPrecision(c, check);
  check.Require(train.batch_size() % micro == 0, "train.micro_batches",
                absl::StrCat("batch_size ", train.batch_size(), " is not a multiple of ", micro, " micro-batches"));
  const pb::Sgd& sgd = train.optimizer().sgd();
  check.Require(!sgd.nesterov() || sgd.momentum() > 0, "train.optimizer.sgd.nesterov", "needs a momentum > 0");
  const pb::Schedule& schedule = train.schedule();
  check.Require(schedule.learning_rate() > 0 || train.steps() == 0, "train.schedule.learning_rate", "is missing");
}

void CheckCheckpoint(const pb::JobConfig& c, Checker& check) {
  if (!c.has_checkpoint()) return;
  const pb::Checkpoint& checkpoint = c.checkpoint();
  check.Require(checkpoint.keep_every() == 0 || checkpoint.keep() > 0 || !checkpoint.has_keep(),
                "checkpoint.keep_every", "keep: 0 keeps all");
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
    check.Require(c.model().has_gpt() || c.model().has_graph(), "generate", "only a language model generates text");
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
