// Data sources, which fill the outputs of READ instructions. The samples of an act are a function of its position
// alone, so the order of data does not depend on the layout.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kernels/tensor_arg.h"
#include "oneflow_core/attr.h"
#include "oneflow_core/status.h"

namespace oneflow {

// One opened data set. Read() may be called from several device threads at once.
class Source {
 public:
  virtual ~Source() = default;
  // Fills the local shards `outputs` (host memory; each knows its start in the logical micro-batch) with micro-batch
  // `micro_batch` of step `step`, or with the samples `row_shift` later. Fails with the file's name and offset if the
  // data turns out to be malformed.
  virtual absl::Status Read(int64_t step, int64_t micro_batch, int64_t micro_batches,
                            std::span<const TensorArg> outputs, int64_t row_shift = 0) = 0;
  // The number of samples in one pass over the split.
  virtual int64_t num_samples() const = 0;
};

// How data of a kind is opened (oneflow_core/data/data_kind.h says what the kind is otherwise). A source opens no files
// but those in the attributes that its kind declares to be paths: others a daemon has not allowed. A file
// NAME_source.cc of this folder defines `std::vector<SourceKind> NameSources()` and is listed by the build.
struct SourceKind {
  const char* name;
  absl::StatusOr<std::unique_ptr<Source>> (*open)(const AttrMap& attributes);
};

// For the rest of the process. REQUIRES: no source of that kind is known. Not while another thread opens one.
void AddSource(SourceKind source);

// Opens the source that the attributes of a read_data node describe: its kind is `dataset`; which others a kind takes,
// the file of its source says. InvalidArgument naming file, place and both values if a file is malformed, or all kinds
// if there is no such; NotFound if a file is missing.
absl::StatusOr<std::unique_ptr<Source>> OpenSource(const AttrMap& attributes);

}  // namespace oneflow
