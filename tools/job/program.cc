#include "tools/job/program.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "oneflow_core/graph_text.h"
#include "oneflow_core/models/convnet.h"
#include "oneflow_core/models/gpt.h"
#include "oneflow_core/models/margin_classifier.h"
#include "oneflow_core/models/mlp.h"
#include "oneflow_core/models/wide_deep.h"
#include "tools/job/field_rules.h"
#include "tools/job/read_text.h"

namespace oneflow {
namespace {

BatchSizes Batches(const pb::JobConfig& config) {
  const int64_t micro_batches = WithDefaults(config.train()).micro_batches();
  return {config.train().batch_size() / micro_batches, config.has_evaluate() ? EvaluationBatch(config) : 0};
}

TextData TextOf(const pb::JobConfig& config) {
  const pb::Text text = WithDefaults(config.data().text());
  return {text.path(), text.validation_fraction()};
}

ImageData ImagesOf(const pb::JobConfig& config) {
  const pb::Images& images = config.data().images();
  ImageData data;
  data.train_images = images.train_images();
  data.train_labels = images.train_labels();
  data.test_images = images.test_images();
  data.test_labels = images.test_labels();
  return data;
}

absl::StatusOr<Program> BuildGpt(const pb::JobConfig& config, const OpRegistry& ops) {
  const pb::Gpt& from = config.model().gpt();
  GptConfig gpt;
  if (from.has_vocabulary()) gpt.vocabulary = from.vocabulary();
  gpt.layers = from.layers();
  gpt.width = from.width();
  gpt.heads = from.heads();
  gpt.context = from.context();
  gpt.dropout = from.dropout();
  gpt.tied_embedding = from.tied_embedding();
  std::optional<GptGeneration> generation;
  if (config.has_generate()) generation = GptGeneration{config.generate().prompt(), config.generate().temperature()};
  return GptProgram(gpt, TextOf(config), Batches(config), generation, ops);
}

absl::StatusOr<Program> BuildConvNet(const pb::JobConfig& config, const OpRegistry& ops) {
  const pb::ConvNet& from = config.model().convnet();
  ConvNetConfig net;
  if (from.channels_size() > 0) net.channels.assign(from.channels().begin(), from.channels().end());
  if (from.has_hidden()) net.hidden = from.hidden();
  if (from.has_classes()) net.classes = from.classes();
  net.dropout = from.dropout();
  return ConvNetProgram(net, ImagesOf(config), Batches(config), ops);
}

absl::StatusOr<Program> BuildMlp(const pb::JobConfig& config, const OpRegistry& ops) {
  const pb::Mlp& from = config.model().mlp();
  MlpConfig mlp;
  mlp.widths.assign(from.widths().begin(), from.widths().end());
  if (from.has_classes()) mlp.classes = from.classes();
  return MlpProgram(mlp, ImagesOf(config), Batches(config), ops);
}

absl::StatusOr<Program> BuildMarginClassifier(const pb::JobConfig& config, const OpRegistry& ops) {
  const pb::MarginClassifier& from = config.model().margin_classifier();
  MarginClassifierConfig model;
  model.widths.assign(from.widths().begin(), from.widths().end());
  if (from.has_embedding()) model.embedding = from.embedding();
  if (from.has_scale()) model.scale = from.scale();
  if (from.has_margin()) model.margin = from.margin();
  const pb::Prototypes& prototypes = config.data().prototypes();
  PrototypeData data;
  data.classes = prototypes.classes();
  if (prototypes.has_samples()) data.samples = prototypes.samples();
  if (prototypes.has_validation_samples()) data.validation_samples = prototypes.validation_samples();
  if (prototypes.has_height()) data.height = prototypes.height();
  if (prototypes.has_width()) data.width = prototypes.width();
  if (prototypes.has_noise()) data.noise = prototypes.noise();
  return MarginClassifierProgram(model, data, Batches(config), ops);
}

TableSplit TableSplitOf(const std::string& text) {
  return text == "none" ? TableSplit::kNone : text == "columns" ? TableSplit::kColumns : TableSplit::kRows;
}

absl::StatusOr<Program> BuildWideDeep(const pb::JobConfig& config, const OpRegistry& ops) {
  const pb::WideDeep& from = config.model().wide_deep();
  WideDeepConfig model;
  if (from.has_embedding()) model.embedding = from.embedding();
  model.widths.assign(from.widths().begin(), from.widths().end());
  model.split = TableSplitOf(from.table_split());
  const pb::Clicks& clicks = config.data().clicks();
  ClickData data;
  if (clicks.has_fields()) data.fields = clicks.fields();
  if (clicks.has_vocabulary()) data.vocabulary = clicks.vocabulary();
  if (clicks.has_numbers()) data.numbers = clicks.numbers();
  if (clicks.has_samples()) data.samples = clicks.samples();
  if (clicks.has_validation_samples()) data.validation_samples = clicks.validation_samples();
  return WideDeepProgram(model, data, Batches(config), ops);
}

// All files *.graph of a directory, in the order of their names but "train" first, whose layout the others follow.
absl::StatusOr<Program> ReadGraphs(const std::string& directory, const OpRegistry& ops) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<fs::path> files;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".graph") files.push_back(it->path());
  }
  if (error) return absl::NotFoundError(absl::StrCat("model.graph '", directory, "': ", error.message()));
  if (files.empty()) return absl::NotFoundError(absl::StrCat("model.graph '", directory, "': no file *.graph in it"));
  std::sort(files.begin(), files.end(), [](const fs::path& a, const fs::path& b) {
    const bool a_trains = a.stem() == "train", b_trains = b.stem() == "train";
    return a_trains != b_trains ? a_trains : a < b;
  });
  Program program;
  for (const fs::path& file : files) {
    OF_ASSIGN_OR_RETURN(const std::string text, ReadText("graph file", file.string()));
    OF_ASSIGN_OR_RETURN_AT(Graph graph, GraphFromText(text, ops), absl::StrCat("graph file '", file.string(), "'"));
    program.push_back(std::move(graph));
  }
  return program;
}

}  // namespace

int64_t EvaluationBatch(const pb::JobConfig& config) {
  if (config.evaluate().batch_size() > 0) return config.evaluate().batch_size();
  return config.train().batch_size() / WithDefaults(config.train()).micro_batches();
}

absl::StatusOr<Program> BuildProgram(const pb::JobConfig& config, const OpRegistry& ops) {
  switch (config.model().kind_case()) {
    case pb::Model::kGpt:
      return BuildGpt(config, ops);
    case pb::Model::kConvnet:
      return BuildConvNet(config, ops);
    case pb::Model::kMlp:
      return BuildMlp(config, ops);
    case pb::Model::kMarginClassifier:
      return BuildMarginClassifier(config, ops);
    case pb::Model::kWideDeep:
      return BuildWideDeep(config, ops);
    case pb::Model::kGraph:
      return ReadGraphs(config.model().graph(), ops);
    case pb::Model::KIND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("model: is missing");
}

}  // namespace oneflow
