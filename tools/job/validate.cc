#include "tools/job/validate.h"

#include <limits>

#include "oneflow_core/models/config.h"
#include "tools/job/checker.h"
#include "tools/job/cluster.h"
#include "tools/job/meshes.h"
#include "tools/job/optimizer.h"

namespace oneflow {
namespace {

constexpr int64_t kMaxSize = kMaxModelSize;
constexpr int64_t kMaxSteps = int64_t{1} << 40;
constexpr int64_t kMaxAttempts = 1000;

void CheckModel(const pb::JobConfig& c, Checker& check) {
  switch (c.model().kind_case()) {
    case pb::Model::kGpt: {
      const pb::Gpt& gpt = c.model().gpt();
      if (gpt.has_vocabulary()) check.Range(gpt.vocabulary(), 2, kMaxSize, "model.gpt.vocabulary");
      check.Range(gpt.layers(), 1, kMaxLayers, "model.gpt.layers");
      check.Range(gpt.width(), 1, kMaxSize, "model.gpt.width");
      check.Range(gpt.heads(), 1, kMaxSize, "model.gpt.heads");
      check.Require(gpt.heads() > 0 && gpt.width() % gpt.heads() == 0, "model.gpt.heads",
                    absl::StrCat("width ", gpt.width(), " is not a multiple of ", gpt.heads(), " heads"));
      check.Range(gpt.context(), 1, kMaxSize, "model.gpt.context");
      check.Fraction(gpt.dropout(), 0, 1, "model.gpt.dropout");
      check.Require(c.data().has_text(), "data", "a gpt model reads text, so data.text must be given");
      break;
    }
    case pb::Model::kConvnet: {
      const pb::ConvNet& net = c.model().convnet();
      check.Require(net.channels_size() == 0 || net.channels_size() == 2, "model.convnet.channels",
                    absl::StrCat("the network has 2 convolutions, but ", net.channels_size(), " sizes are given"));
      for (const int channels : net.channels()) check.Range(channels, 1, kMaxSize, "model.convnet.channels");
      if (net.has_hidden()) check.Range(net.hidden(), 1, kMaxSize, "model.convnet.hidden");
      if (net.has_classes()) check.Range(net.classes(), 2, 256, "model.convnet.classes");
      check.Fraction(net.dropout(), 0, 1, "model.convnet.dropout");
      check.Require(c.data().has_images(), "data", "a convnet model reads images, so data.images must be given");
      break;
    }
    case pb::Model::kMlp:
      for (const int width : c.model().mlp().widths()) check.Range(width, 1, kMaxSize, "model.mlp.widths");
      if (c.model().mlp().has_classes()) check.Range(c.model().mlp().classes(), 2, 256, "model.mlp.classes");
      check.Require(c.data().has_images(), "data", "an mlp model reads images, so data.images must be given");
      break;
    case pb::Model::kMarginClassifier: {
      const pb::MarginClassifier& model = c.model().margin_classifier();
      for (const int width : model.widths()) check.Range(width, 1, kMaxSize, "model.margin_classifier.widths");
      if (model.has_embedding()) check.Range(model.embedding(), 1, kMaxSize, "model.margin_classifier.embedding");
      if (model.has_scale()) check.NotNegative(model.scale(), "model.margin_classifier.scale");
      if (model.has_margin()) check.Fraction(model.margin(), 0, 2, "model.margin_classifier.margin");
      check.Require(c.data().has_prototypes(), "data",
                    "a margin_classifier model reads prototypes, so data.prototypes must be given");
      break;
    }
    case pb::Model::kWideDeep: {
      const pb::WideDeep& model = c.model().wide_deep();
      if (model.has_embedding()) check.Range(model.embedding(), 1, kMaxSize, "model.wide_deep.embedding");
      for (const int width : model.widths()) check.Range(width, 1, kMaxSize, "model.wide_deep.widths");
      const std::string& split = model.table_split();
      check.Require(split.empty() || split == "rows" || split == "columns" || split == "none",
                    "model.wide_deep.table_split", absl::StrCat("'", split, "' is none of 'rows', 'columns', 'none'"));
      check.Require(c.data().has_clicks(), "data", "a wide_deep model reads clicks, so data.clicks must be given");
      break;
    }
    case pb::Model::kGraph:
      check.Require(!c.model().graph().empty(), "model.graph", "names no directory");
      break;
    case pb::Model::KIND_NOT_SET:
      check.Require(false, "model", "is missing: one of gpt, convnet, mlp, margin_classifier, wide_deep, graph");
  }
}

void CheckData(const pb::JobConfig& c, Checker& check) {
  if (c.data().has_text()) {
    check.Require(!c.data().text().path().empty(), "data.text.path", "is missing");
    if (c.data().text().has_validation_fraction()) {
      check.Fraction(c.data().text().validation_fraction(), 0, 1, "data.text.validation_fraction");
    }
  }
  if (c.data().has_images()) {
    const pb::Images& images = c.data().images();
    check.Require(!images.train_images().empty(), "data.images.train_images", "is missing");
    check.Require(!images.train_labels().empty(), "data.images.train_labels", "is missing");
    if (c.has_evaluate()) {
      check.Require(!images.test_images().empty(), "data.images.test_images", "is missing, but evaluate is asked for");
      check.Require(!images.test_labels().empty(), "data.images.test_labels", "is missing, but evaluate is asked for");
    }
  }
}

void CheckMadeData(const pb::JobConfig& c, Checker& check) {
  constexpr double kMaxReadMs = 10'000;  // an act that sleeps does not hear of the job's end
  check.Fraction(c.data().least_read_ms(), 0, std::nextafter(kMaxReadMs, 2 * kMaxReadMs), "data.least_read_ms");
  constexpr int64_t kMaxSamples = int64_t{1} << 40;
  if (c.data().has_prototypes()) {
    const pb::Prototypes& made = c.data().prototypes();
    check.Range(made.classes(), 2, kMaxSize, "data.prototypes.classes");
    if (made.has_samples()) check.Range(made.samples(), 1, kMaxSamples, "data.prototypes.samples");
    if (made.has_validation_samples())
      check.Range(made.validation_samples(), 1, kMaxSamples, "data.prototypes.validation_samples");
    if (made.has_height()) check.Range(made.height(), 1, kMaxSize, "data.prototypes.height");
    if (made.has_width()) check.Range(made.width(), 1, kMaxSize, "data.prototypes.width");
    if (made.has_noise()) check.NotNegative(made.noise(), "data.prototypes.noise");
  }
  if (c.data().has_clicks()) {
    const pb::Clicks& made = c.data().clicks();
    if (made.has_fields()) check.Range(made.fields(), 1, kMaxSize, "data.clicks.fields");
    if (made.has_vocabulary()) check.Range(made.vocabulary(), 1, INT32_MAX, "data.clicks.vocabulary");
    if (made.has_numbers()) check.Range(made.numbers(), 1, kMaxSize, "data.clicks.numbers");
    if (made.has_samples()) check.Range(made.samples(), 1, kMaxSamples, "data.clicks.samples");
    if (made.has_validation_samples())
      check.Range(made.validation_samples(), 1, kMaxSamples, "data.clicks.validation_samples");
  }
}

void CheckCluster(const pb::JobConfig& c, Checker& check) {
  check.Range(c.mesh().pp(), 0, 4096, "mesh.pp");
  check.Range(c.mesh().dp(), 0, 4096, "mesh.dp");
  check.Range(c.mesh().tp(), 0, 4096, "mesh.tp");
  const int64_t of_mesh = NumDevices(c.mesh());
  check.Require(of_mesh > 0 && of_mesh <= 4096, "mesh",
                absl::StrCat("has ", of_mesh, " devices, at most 4096 are supported"));
  if (check.status().ok()) check.Take(OwnMeshes(check.config()).status());
  const int64_t devices = NumDevices(c);
  check.Require(devices > 0 && devices <= 4096, "mesh",
                absl::StrCat("the job's meshes take ", devices, " devices, at most 4096 are supported"));
  const int64_t processes = NumProcesses(c);
  check.Range(processes, 1, 1024, "cluster.processes");
  if (!check.status().ok()) return;
  if (c.cluster().has_devices_per_process()) {
    check.Range(c.cluster().devices_per_process(), 1, 4096, "cluster.devices_per_process");
    check.Require(processes * c.cluster().devices_per_process() == devices, "cluster.devices_per_process",
                  absl::StrCat(processes, " processes of ", c.cluster().devices_per_process(), " devices make ",
                               processes * c.cluster().devices_per_process(), ", but the job has ", devices));
  } else {
    check.Require(devices % processes == 0, "cluster.processes",
                  absl::StrCat("the job's ", devices, " devices do not divide among ", processes, " processes"));
  }
  check.Require(c.cluster().variable_bytes_per_device() >= 0, "cluster.variable_bytes_per_device",
                absl::StrCat(c.cluster().variable_bytes_per_device(), " is negative"));
  check.Require(c.cluster().memory_bytes_per_device() >= 0, "cluster.memory_bytes_per_device",
                absl::StrCat(c.cluster().memory_bytes_per_device(), " is negative"));
  check.Require(c.cluster().library_bytes_per_device() >= 0, "cluster.library_bytes_per_device",
                absl::StrCat(c.cluster().library_bytes_per_device(), " is negative"));
  check.NotNegative(c.cluster().emulated_ms_per_mb(), "cluster.emulated_ms_per_mb");
  const std::string& device = c.cluster().device();
  check.Require(device.empty() || device == "cpu" || device == "cuda", "cluster.device",
                absl::StrCat("'", device, "' is neither 'cpu' nor 'cuda'"));
  check.Require(
      device != "cuda" || c.cluster().emulated_ms_per_mb() == 0, "cluster.emulated_ms_per_mb",
      absl::StrCat(c.cluster().emulated_ms_per_mb(), " is given, but only links of cpu devices are emulated"));
  if (c.cluster().has_cores_per_process())
    check.Range(c.cluster().cores_per_process(), 1, 4096, "cluster.cores_per_process");
  if (check.status().ok()) check.Take(HostsOf(check.config()).status());
}

void CheckPipeline(const pb::Pipeline& pipeline, Checker& check) {
  const bool greedy = pipeline.schedule() == "greedy";
  check.Range(pipeline.chunks(), 0, kMaxLayers, "pipeline.chunks");
  check.Require(pipeline.chunks() == 0 || (!pipeline.schedule().empty() && pipeline.schedule() != "credits"),
                "pipeline.schedule", "chunks are given, but no schedule");
  check.Require(pipeline.costs().empty() || greedy, "pipeline.costs",
                pipeline.schedule().empty()
                    ? "only schedule 'greedy' takes them, and no pipeline.schedule is given"
                    : absl::StrCat("schedule '", pipeline.schedule(), "' takes none, 'greedy' does"));
  check.NotNegative(pipeline.activations_mb(), "pipeline.activations_mb");
  check.Require(pipeline.activations_mb() == 0 || !pipeline.costs().empty(), "pipeline.activations_mb",
                "needs pipeline.costs, a trace, which says what activations take");
  for (const double share : pipeline.shares()) {
    check.Require(share > 0 && std::isfinite(share), "pipeline.shares",
                  absl::StrCat(share, " is not a finite number > 0"));
  }
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
  if (precision.has_initial_scale()) {
    const double scale = precision.initial_scale();
    check.Require(scale >= 1 && scale <= 1e38, "precision.initial_scale", absl::StrCat(scale, " is not in [1, 1e+38]"));
  }
  if (precision.has_growth_interval()) {
    check.Range(precision.growth_interval(), 1, std::numeric_limits<int32_t>::max(), "precision.growth_interval");
  }
}

void CheckRestart(const pb::Restart& restart, Checker& check) {
  if (restart.has_attempts()) check.Range(restart.attempts(), 1, kMaxAttempts, "restart.attempts");
  check.Range(restart.least_devices(), 0, kMaxSize, "restart.least_devices");
  if (restart.has_wait_seconds()) {
    check.Require(restart.wait_seconds() >= 0 && restart.wait_seconds() <= 86400, "restart.wait_seconds",
                  absl::StrCat(restart.wait_seconds(), " is not in [0, 86400]"));
  }
  const bool once = restart.attempts() <= 1;
  check.Require(!once || restart.meshes().empty(), "restart.meshes", "no attempt follows the first (restart.attempts)");
  check.Require(!once || restart.least_devices() == 0, "restart.least_devices",
                "no attempt follows the first (restart.attempts)");
  check.Require(!restart.has_wait_seconds() || !restart.meshes().empty() || restart.least_devices() > 0,
                "restart.wait_seconds", "there are no fewer devices to go on with (meshes, least_devices)");
}

void CheckTrain(const pb::JobConfig& c, Checker& check) {
  const pb::Train& train = c.train();
  check.Range(train.steps(), 0, kMaxSteps, "train.steps");
  check.Range(train.batch_size(), 1, kMaxSize, "train.batch_size");
  const int64_t micro = train.has_micro_batches() ? train.micro_batches() : 1;
  check.Range(micro, 1, kMaxSize, "train.micro_batches");
  CheckPipeline(c.pipeline(), check);
  CheckRestart(c.restart(), check);
  const std::string& what = c.recompute().what();
  check.Range(c.recompute().layers(), 0, kMaxLayers, "recompute.layers");
  check.Require(c.recompute().layers() == 0 || (!what.empty() && what != "none"), "recompute.what",
                absl::StrCat(c.recompute().layers(), " layers are given, but nothing to compute again"));
  CheckPrecision(c, check);
  check.Require(micro < 1 || train.batch_size() % micro == 0, "train.micro_batches",
                absl::StrCat("batch_size ", train.batch_size(), " is not a multiple of ", micro, " micro-batches"));
  CheckOptimizer(train.optimizer(), check);
  check.NotNegative(train.optimizer().clip_norm(), "train.optimizer.clip_norm");
  const pb::Schedule& schedule = train.schedule();
  check.NotNegative(schedule.learning_rate(), "train.schedule.learning_rate");
  check.Require(schedule.learning_rate() > 0 || train.steps() == 0, "train.schedule.learning_rate", "is missing");
  check.Require(schedule.kind().empty() || schedule.kind() == "constant" || schedule.kind() == "cosine" ||
                    schedule.kind() == "linear",
                "train.schedule.kind",
                absl::StrCat("'", schedule.kind(), "' is none of 'constant', 'cosine', 'linear'"));
  check.Range(schedule.warmup_steps(), 0, kMaxSteps, "train.schedule.warmup_steps");
  check.Require(schedule.min_ratio() >= 0 && schedule.min_ratio() <= 1, "train.schedule.min_ratio",
                absl::StrCat(schedule.min_ratio(), " is not in [0, 1]"));
}

void CheckCheckpoint(const pb::JobConfig& c, Checker& check) {
  if (!c.has_checkpoint()) return;
  const pb::Checkpoint& checkpoint = c.checkpoint();
  check.Require(!checkpoint.path().empty(), "checkpoint.path", "is missing");
  check.Range(checkpoint.every(), 0, kMaxSteps, "checkpoint.every");
  check.Range(checkpoint.keep(), 0, std::numeric_limits<int32_t>::max(), "checkpoint.keep");
  check.Range(checkpoint.keep_every(), 0, kMaxSteps, "checkpoint.keep_every");
  check.Require(checkpoint.keep_every() == 0 || checkpoint.keep() > 0 || !checkpoint.has_keep(),
                "checkpoint.keep_every", "keep: 0 keeps all");
  check.Require(c.train().steps() > 0, "checkpoint", "there is nothing to save without training");
}

void CheckStop(const pb::JobConfig& c, Checker& check) {
  const pb::Stop& stop = c.train().stop();
  check.Range(stop.samples(), 0, std::numeric_limits<int64_t>::max(), "train.stop.samples");
  check.NotNegative(stop.seconds(), "train.stop.seconds");
  check.Range(stop.patience(), 0, std::numeric_limits<int32_t>::max(), "train.stop.patience");
  check.NotNegative(stop.least_gain(), "train.stop.least_gain");
  check.Require(stop.patience() == 0 || c.evaluate().every() > 0, "train.stop.patience",
                "counts evaluations, but there are none while training (evaluate.every)");
  check.Require(stop.least_gain() == 0 || stop.patience() > 0, "train.stop.least_gain", "without train.stop.patience");
}

void CheckRest(const pb::JobConfig& c, Checker& check) {
  check.Range(c.tensorboard_histograms_every(), 0, kMaxSteps, "tensorboard_histograms_every");
  check.Require(c.tensorboard_histograms_every() == 0 || !c.tensorboard().empty(), "tensorboard_histograms_every",
                "without a folder for them (tensorboard)");
  if (c.has_evaluate()) {
    check.Range(c.evaluate().every(), 0, kMaxSteps, "evaluate.every");
    check.Range(c.evaluate().batches(), 0, kMaxSteps, "evaluate.batches");
    check.Range(c.evaluate().batch_size(), 0, kMaxSize, "evaluate.batch_size");
  }
  if (c.has_generate()) {
    check.Require(c.model().has_gpt() || c.model().has_graph(), "generate", "only a language model generates text");
    check.Range(c.generate().tokens(), 1, kMaxSize, "generate.tokens");
    check.NotNegative(c.generate().temperature(), "generate.temperature");
    check.Require(!c.generate().prompt().empty(), "generate.prompt",
                  "is empty; at least one byte is needed to begin with");
  }
  if (c.has_trace()) {
    check.Require(!c.trace().file().empty(), "trace.file", "is missing");
    if (c.trace().has_megabytes()) check.Range(c.trace().megabytes(), 1, 1024, "trace.megabytes");
  }
  if (c.stall().has_seconds()) {
    check.Require(c.stall().seconds() >= 0.1 && c.stall().seconds() <= 86400, "stall.seconds",
                  absl::StrCat(c.stall().seconds(), " is not in [0.1, 86400]"));
  }
  check.Require(c.save_gradients().empty() || c.train().steps() > 0, "save_gradients",
                "there are no gradients without training");
}

}  // namespace

absl::Status ValidateConfig(const SourcedConfig& config) {
  Checker check(config);
  CheckModel(config.config, check);
  CheckData(config.config, check);
  CheckMadeData(config.config, check);
  CheckCluster(config.config, check);
  CheckTrain(config.config, check);
  CheckStop(config.config, check);
  CheckCheckpoint(config.config, check);
  CheckRest(config.config, check);
  return check.status();
}

}  // namespace oneflow
