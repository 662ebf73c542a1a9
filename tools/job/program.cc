#include "tools/job/program.h"

#include <algorithm>
#include <filesystem>

#include "google/protobuf/descriptor.h"
#include "oneflow_core/graph_text.h"
#include "oneflow_core/models/model.h"
#include "tools/job/attributes.h"
#include "tools/job/field_rules.h"
#include "tools/job/read_text.h"
#include "tools/job/sync.h"

namespace oneflow {
namespace {

BatchSizes Batches(const pb::JobConfig& config) {
  const int64_t micro_batches = WithDefaults(config.train()).micro_batches();
  return {config.train().batch_size() / micro_batches / NumGroups(config),
          config.has_evaluate() ? EvaluationBatch(config) : 0};
}

absl::StatusOr<Program> BuildModel(const ModelDef& model, const pb::JobConfig& config, const OpRegistry& ops) {
  const std::string reads = KindNameOf(config.data());
  if (reads.empty()) return absl::InvalidArgumentError("data: is missing");
  OF_ASSIGN_OR_RETURN(const DataKind kind, FindDataKind(reads));
  ModelRequest request = {.fields = AttributesOfKind(config.model()),
                          .reads = kind,
                          .data = AttributesOfKind(config.data()),
                          .batches = Batches(config)};
  if (config.has_generate()) {
    request.continuation = Continuation{config.generate().prompt(), config.generate().temperature()};
  }
  return model.build(request, ops);
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
  if (config.model().has_graph()) return ReadGraphs(config.model().graph(), ops);
  const ModelDef* const model = FindModel(KindNameOf(config.model()));
  if (model == nullptr) return absl::InvalidArgumentError("model: is missing");
  return BuildModel(*model, config, ops);
}

}  // namespace oneflow
