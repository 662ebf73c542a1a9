#include "oneflow_core/models/model.h"

#include <utility>

namespace oneflow {

std::vector<ModelDef> ListedModels();  // made by the build, of the files of this folder

namespace {

std::deque<ModelDef>& Table() {
  static auto* const models = [] {
    const std::vector<ModelDef> listed = ListedModels();
    return new std::deque<ModelDef>(listed.begin(), listed.end());
  }();
  return *models;
}

}  // namespace

const std::deque<ModelDef>& Models() { return Table(); }

void AddModel(ModelDef model) { Table().push_back(std::move(model)); }

const ModelDef* FindModel(absl::string_view name) {
  for (const ModelDef& model : Models()) {
    if (name == model.name) return &model;
  }
  return nullptr;
}

}  // namespace oneflow
