// How large a model is: its parameters, what a sample and a step compute, and the memory of training on one device.
// `oneflow models show`.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "oneflow_core/op.h"
#include "oneflow_core/status.h"
#include "tools/job/job.h"

namespace oneflow {

// Parts of a model whose names differ in numbers alone ("h*"), in the model's order.
struct ModelPart {
  std::string name;
  int64_t count = 0;       // parts of that name
  int64_t parameters = 0;  // of all of them
};

struct ModelSize {
  std::vector<ModelPart> parts;
  int64_t parameters = 0;                 // trained ones
  int64_t samples = 0;                    // of a step
  double forward_flops = 0;               // of a step
  double step_flops = 0;                  // forward, backward and update
  std::map<std::string, int64_t> memory;  // of a rank when most is in use, by purpose, bytes
};

// The config of a job that trains the model named `name` on one device, with as few samples a step as it takes, data
// that need no file, and these settings, "layers=4" or "train.batch_size=8": a path that is none of a job's fields is
// one of the model's. NotFound if there is no such model; InvalidArgument if a setting is none.
absl::StatusOr<SourcedConfig> ConfigOfModel(const std::string& name, const std::vector<std::string>& settings);

// Of the job's graph "train". Errors of CompileJob().
absl::StatusOr<ModelSize> SizeOfModel(Job& job, const OpRegistry& ops);
// A table for people.
std::string ModelSizeText(const std::string& name, const ModelSize& size);

}  // namespace oneflow
