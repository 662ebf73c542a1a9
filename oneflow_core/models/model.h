// The models that a job config can name: a file of this folder each, which describes one. What a config says of it is a
// message of the same name in proto/job.proto; from its fields `fields` are made, by name and with defaults. From the
// two follow the config's checks, `oneflow models`, and the tests that every model has to pass.
//
// A file NAME.cc of this folder defines `ModelDef NameModel()` and is listed by the build.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "oneflow_core/data/data_kind.h"
#include "oneflow_core/graph.h"
#include "oneflow_core/models/config.h"
#include "oneflow_core/models/language_model.h"
#include "oneflow_core/op.h"

namespace oneflow {

// What a job asks a model for.
struct ModelRequest {
  AttrMap fields;  // of the model
  DataKind reads;  // the kind of its data
  AttrMap data;    // the fields of these
  BatchSizes batches;
  std::optional<Continuation> continuation;
};

using ModelBuilder = absl::StatusOr<std::vector<Graph>> (*)(const ModelRequest& request, const OpRegistry& ops);
using ModelChecker = std::optional<FieldComplaint> (*)(const AttrMap& fields);

struct ModelDef {
  std::string name;                // the job's field model.<name>
  std::vector<std::string> reads;  // kinds of data (oneflow_core/data/data_kind.h)
  // The graphs "train", and, as they are asked for, "evaluate" and "generate". InvalidArgument naming the model and the
  // field if the request is impossible.
  ModelBuilder build = nullptr;
  // What is wrong among the fields, beyond their own ranges. Null: nothing can be.
  ModelChecker check = nullptr;
  bool generates = false;             // it continues text
  int64_t least_batch = 1;            // samples of a micro-batch: 2 where it needs their variance
  std::string small;                  // fields of a small one, as protobuf text, which tests train
  std::vector<FieldDef> fields = {};  // of a model that was added; others have theirs in proto/job.proto
};

// The graphs "train" and, if it is asked for, "evaluate", as `graph_of` makes them of a split. InvalidArgument naming
// the model if a batch is none.
using GraphOfSplit = absl::StatusOr<Graph> (*)(const ModelRequest& request, DataSplit split, int64_t batch,
                                               const OpRegistry& ops);
absl::StatusOr<std::vector<Graph>> ProgramOf(absl::string_view model, const ModelRequest& request,
                                             GraphOfSplit graph_of, const OpRegistry& ops);

// A classifier of images, and a model of text that continues it.
inline ModelDef OfImages(std::string name, ModelBuilder build, ModelChecker check, std::string small) {
  return {
      .name = std::move(name), .reads = {"images", "cifar"}, .build = build, .check = check, .small = std::move(small)};
}
inline ModelDef OfText(std::string name, ModelBuilder build, ModelChecker check, std::string small) {
  ModelDef model = OfImages(std::move(name), build, check, std::move(small));
  model.reads = {"text"};
  model.generates = true;
  return model;
}

// All of them: those of this folder by name, then those that were added. Rows stay where they are.
const std::deque<ModelDef>& Models();
// For the rest of the process. REQUIRES: there is no model of that name, and no other thread looks at the table.
void AddModel(ModelDef model);
// Null if there is none of that name.
const ModelDef* FindModel(absl::string_view name);

}  // namespace oneflow
