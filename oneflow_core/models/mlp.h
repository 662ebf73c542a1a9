// Fully connected layers with ReLU on flattened images, or other samples.
//
//   images [n,c,h,w] ──► [n, c*h*w] ──► (linear, relu) per width ──► linear ──► logits [n, classes]
#pragma once

#include <vector>

#include "oneflow_core/models/config.h"
#include "oneflow_core/models/data.h"

namespace oneflow {

struct MlpConfig {
  std::vector<int64_t> widths = {256, 128};  // of the hidden layers; none: a linear classifier
  int64_t classes = 10;
};

// Variables "fc0/weight", "fc0/bias", ..., "head/weight", "head/bias".
Tensor MlpLogits(const MlpConfig& config, const Tensor& images);

// The graphs "train" and, if asked for, "evaluate". InvalidArgument naming the field if the config is impossible.
absl::StatusOr<std::vector<Graph>> MlpProgram(const MlpConfig& config, const ImageData& data, const BatchSizes& batches,
                                              const OpRegistry& ops);

}  // namespace oneflow
