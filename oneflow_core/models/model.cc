#include "oneflow_core/models/model.h"

#include <utility>

#include "oneflow_core/growing_table.h"

namespace oneflow {

std::vector<ModelDef> ListedModels();  // made by the build, of the files of this folder

const std::deque<ModelDef>& Models() { return GrowingTable(ListedModels); }

void AddModel(ModelDef model) { GrowingTable(ListedModels).push_back(std::move(model)); }

const ModelDef* FindModel(absl::string_view name) {
  for (const ModelDef& model : Models()) {
    if (name == model.name) return &model;
  }
  return nullptr;
}

absl::StatusOr<std::vector<Graph>> ProgramOf(absl::string_view model, const ModelRequest& request,
                                             GraphOfSplit graph_of, const OpRegistry& ops) {
  OF_RETURN_IF_ERROR(CheckBatches(model, request.batches));
  std::vector<Graph> program;
  OF_ASSIGN_OR_RETURN(program.emplace_back(), graph_of(request, DataSplit::kTrain, request.batches.train, ops));
  if (request.batches.evaluate == 0) return program;
  OF_ASSIGN_OR_RETURN(program.emplace_back(), graph_of(request, DataSplit::kValidation, request.batches.evaluate, ops));
  return program;
}

}  // namespace oneflow
