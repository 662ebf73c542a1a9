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

}  // namespace oneflow
