#include "tools/study/weights/model_variables.h"

#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/adapters.h"
#include "google/protobuf/descriptor.h"
#include "oneflow_core/variable_role.h"
#include "tools/job/attributes.h"
#include "tools/job/field_rules.h"
#include "tools/job/optimizer.h"
#include "tools/job/plugins.h"
#include "tools/job/program.h"
#include "tools/job/validate.h"

namespace oneflow {

namespace {

// Of a batch [n,c,h,w].
void AddSizesOfImages(const TensorType& batch, AttrMap& fields) {
  if (batch.shape.rank() != 4) return;
  for (int i = 0; i < 3; ++i) fields.Set(kFieldsOfImages[i], batch.shape[i + 1]);
}

}  // namespace

std::string JobModel::Where(const std::string& field) const {
  if (absl::StartsWith(field, "data.")) return config.Where(field);
  return config.Where(absl::StrCat("model.", name, field.empty() ? "" : ".", field));
}

absl::StatusOr<JobModel> ModelOf(SourcedConfig config) {
  OF_ASSIGN_OR_RETURN(const OpRegistry ops, OpsOf(config));
  OF_RETURN_IF_ERROR(ValidateConfig(config));
  MakePathsAbsolute(config.config);
  JobModel model;
  model.config = std::move(config);
  const pb::JobConfig& job = model.config.config;
  model.name = KindNameOf(job.model());
  model.fields = AttributesOfKind(job.model());
  if (job.has_data()) model.fields.Set(kKindOfData, KindNameOf(job.data()));
  OF_ASSIGN_OR_RETURN_AT(Program program, BuildProgram(job, ops), model.config.Where("model"));
  OF_RETURN_IF_ERROR(AdaptProgram(model.config, ops, program));
  if (const auto adapters = AdaptersOf(job.train())) {
    model.adapter_rank = adapters->rank;
    model.adapter_scale = adapters->alpha / static_cast<double>(adapters->rank);
  }
  std::map<std::string, TensorType> variables;
  std::set<std::string> factors, last_factors;  // those that rows meet last begin with zeros
  for (const Graph& graph : program) {
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      const Node& node = graph.node(id);
      if (node.op == "read_data") AddSizesOfImages(graph.value(node.outputs[0]).type, model.fields);
      if (node.op != "variable" || !IsOfModel(RoleOfVariable(node.attrs))) continue;
      if (RoleOfVariable(node.attrs) == VariableRole::kAdapter) {
        factors.insert(node.name);
        if (node.attrs.String("init") == "zeros") last_factors.insert(node.name);
      } else {
        variables[node.name] = graph.value(node.outputs[0]).type;
      }
    }
  }
  for (const auto& [name, type] : variables) {
    if (type.dtype != DType::kFloat32) {
      return absl::UnimplementedError(
          absl::StrCat(model.Where(""), ": variable '", name, "' is ", type.ToString(), "; weights are f32"));
    }
    model.variables.push_back({name, type});
    if (factors.count(AdapterA(name)) > 0) model.adapted.insert(name);
    if (last_factors.count(AdapterA(name)) > 0) model.read_transposed.insert(name);
  }
  return model;
}

absl::StatusOr<Mapping> MappingFor(const JobModel& model, const std::string& path) {
  if (!path.empty()) {
    OF_ASSIGN_OR_RETURN(Mapping mapping, ReadMapping(path));
    if (mapping.table.model() == model.name) return mapping;
    return absl::InvalidArgumentError(absl::StrCat("mapping '", path, "': is for model '", mapping.table.model(),
                                                   "', and ", model.Where(""), " is '", model.name, "'"));
  }
  OF_ASSIGN_OR_RETURN(std::vector<Mapping> mappings, BuiltInMappings());
  std::set<std::string> models;
  for (Mapping& mapping : mappings) {
    models.insert(mapping.table.model());
    if (mapping.table.model() == model.name) return std::move(mapping);
  }
  return absl::NotFoundError(absl::StrCat(model.Where(""), ": there is no mapping for model '", model.name,
                                          "' (--mapping names a file of one's own); there are some for ",
                                          absl::StrJoin(models, ", ")));
}

}  // namespace oneflow
