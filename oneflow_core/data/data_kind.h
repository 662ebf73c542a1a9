// The kinds of data: a file of this folder each, which describes one. From it follow the types of the op read_data, the
// node that reads a batch, what progress is counted in, which attributes name files, and which models may read it. How
// its files are read is beside it in actor/data/. What a job says of it is a message of the same name in
// proto/job.proto, of whose fields `fields` are made: by name, with defaults; lists of texts as JoinTexts() writes them
// (oneflow_core/text_list.h).
//
// A file NAME.cc of this folder defines `DataKind NameKind()` and is listed by the build.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "oneflow_core/models/config.h"
#include "oneflow_core/models/data.h"
#include "oneflow_core/op.h"

namespace oneflow {

struct DataKind {
  std::string name;  // attribute 'dataset' of read_data, and the job's field data.<name>
  // A micro-batch of `batch` samples, by the node's attributes. InvalidArgument if one is missing or out of range.
  absl::StatusOr<std::vector<TensorType>> (*types)(const AttrMap& attributes, int64_t batch) = nullptr;
  // The node that reads a micro-batch of samples and their labels, for models that do not ask what kind it is. Null:
  // only models made for this kind read it.
  Batch (*read)(GraphBuilder& b, const AttrMap& fields, DataSplit split, int64_t batch) = nullptr;
  // What is wrong among the fields, beyond their own ranges. Null: nothing can be.
  std::optional<FieldComplaint> (*check)(const AttrMap& fields, bool evaluates) = nullptr;
  std::vector<std::string> paths = {};  // the attributes that name files: the only ones that its source opens
  int labels = -1;                    // which output has classes, of which the model says how many there are; -1: none
  std::string unit = "samples";       // what progress is counted in
  bool counts_elements = false;       // every element of the first output is one of these, else every sample
  bool has_parts = false;             // its source reads part `part` of `parts` alone, if it has these attributes
  std::vector<FieldDef> fields = {};  // of a kind that was added; others have theirs in proto/job.proto
};

// All of them: those of this folder by name, then those that were added. Rows stay where they are.
const std::deque<DataKind>& DataKinds();
// For the rest of the process. REQUIRES: there is no kind of that name, and no other thread looks at the table.
void AddDataKind(DataKind kind);
// InvalidArgument naming all kinds.
absl::StatusOr<DataKind> FindDataKind(absl::string_view name);

}  // namespace oneflow
