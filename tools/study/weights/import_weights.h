// From a folder in Hugging Face's form to the weight file of a job.
//
//   config.json, the job's fields                 compared: every field that differs
//   mapping, the job's variables ──► tensors      compared with the folder's: every one that does not fit
//   each tensor ──► f32 ──► its variables ──► weights.safetensors
//
// With the adapters of a folder in PEFT's form (peft.h), and the weights that were trained beside them, if it is asked
// for. One tensor is in memory at a time.
#pragma once

#include <string>
#include <vector>

#include "oneflow_core/status.h"
#include "tools/job/config.h"

namespace oneflow {

struct ImportOptions {
  std::string folder;                      // of theirs
  std::string out;                         // file of ours
  std::string mapping;                     // file; empty: that of the program for the job's model
  std::vector<std::string> allow_missing;  // patterns of variables that may be missing and start with fresh values
  std::string adapters;                    // folder of theirs; empty: none
};

// What was done, in some lines. A file that was there is replaced when all is done, or left as it is. InvalidArgument
// with both values for each field in which config.json and the job differ; with a line for each tensor that is missing,
// surplus or of another shape or type; for a pattern that is no variable's; for a tied tensor that differs from what it
// is tied to; if `out` is what is read. Errors of PeftFolder, ModelOf(), MappingFor(), WeightFiles and
// SafetensorsWriter.
absl::StatusOr<std::string> ImportWeights(SourcedConfig job, const ImportOptions& options);

}  // namespace oneflow
