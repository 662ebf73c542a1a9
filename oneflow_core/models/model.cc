#include "oneflow_core/models/model.h"

namespace oneflow {

std::vector<ModelDef> ListedModels();  // made by the build, of the files of this folder

const std::vector<ModelDef>& Models() {
  static const auto* const models = new std::vector<ModelDef>(ListedModels());
  return *models;
}

const ModelDef* FindModel(absl::string_view name) {
  for (const ModelDef& model : Models()) {
    if (name == model.name) return &model;
  }
  return nullptr;
}

}  // namespace oneflow
