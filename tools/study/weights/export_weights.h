// From the weights of a job's model to a folder in Hugging Face's form: the way of an import back.
//
//   model.safetensors, or model-00001-of-00003.safetensors, ... and model.safetensors.index.json
//   config.json                                              written last: what has none is not whole
//
// or of its adapters alone, in PEFT's form (peft.h).
#pragma once

#include <cstdint>
#include <string>

#include "oneflow_core/dtype.h"
#include "oneflow_core/status.h"
#include "tools/job/config.h"

namespace oneflow {

struct ExportOptions {
  std::string weights;                      // of ours: a weight file, a checkpoint, or a job's folder of them
  std::string out;                          // folder of theirs, made if there is none
  std::string mapping;                      // file; empty: that of the program for the job's model
  DType dtype = DType::kFloat32;            // f32, bf16 or f16
  int64_t max_shard_bytes = 5'000'000'000;  // a larger tensor has a file for itself
  bool adapters = false;                    // these, and weights that are trained beside them, instead of the model
};

// What was done, in some lines. AlreadyExists if the folder has a model already; InvalidArgument with a line for each
// variable that the weights lack, have in another type or have beyond the model; for a number that is too large for the
// dtype; if adapters are asked for and the job has none. Errors of AdaptedModules(), ModelOf(), MappingFor(),
// FamilyFor(), Weights::Open(), SafetensorsWriter.
absl::StatusOr<std::string> ExportWeights(SourcedConfig job, const ExportOptions& options);

}  // namespace oneflow
