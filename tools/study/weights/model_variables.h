// What a job's model wants of weights: its variables, and the fields that say how large it is.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "oneflow_core/attr.h"
#include "oneflow_core/status.h"
#include "tools/job/config.h"
#include "tools/study/weights/correspondence.h"
#include "tools/study/weights/mapping.h"

namespace oneflow {

struct JobModel {
  SourcedConfig config;
  std::string name;  // "gpt"; "graph" of graphs of one's own
  // None of graphs of one's own; and kKindOfData where it has data, kFieldsOfImages where these are images.
  AttrMap fields;
  std::vector<ModelVariable> variables;  // weights and statistics, by name
  // The weights that have an adapter (compiler/adapters.h), and by what its product is multiplied to be added to them.
  std::set<std::string> adapted;
  std::set<std::string> read_transposed;  // those among them that rows are multiplied by the transpose of
  double adapter_scale = 0;
  int64_t adapter_rank = 0;

  // "job.pbtxt:4: model.gpt.layers".
  std::string Where(const std::string& field) const;
};

// Checks the config and builds its graphs. No file that it names is opened but those of model.graph. Errors of
// ValidateConfig() and BuildProgram(); Unimplemented if a variable is not f32.
absl::StatusOr<JobModel> ModelOf(SourcedConfig config);

// That of `path`, or, if it is empty, the one that is part of the program for this model. InvalidArgument if that of
// `path` is for another one; NotFound, naming the models that have one, if there is none.
absl::StatusOr<Mapping> MappingFor(const JobModel& model, const std::string& path);

}  // namespace oneflow
