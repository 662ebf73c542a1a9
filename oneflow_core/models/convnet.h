// A small convolutional network: per number of channels a 5x5 convolution, ReLU and 2x2 max-pooling, then two linear
// layers.
//
//   images [n,c,h,w] ──► conv0 ──► [n,16,h/2,w/2] ──► conv1 ──► [n,32,h/4,w/4] ──► flat ──► fc ──► head ──► logits [n,
//   classes]
#pragma once

#include <vector>

#include "oneflow_core/models/config.h"
#include "oneflow_core/models/data.h"

namespace oneflow {

struct ConvNetConfig {
  std::vector<int64_t> channels = {16, 32};
  int64_t hidden = 128;
  int64_t classes = 10;
  double dropout = 0;  // before the last layer
};

// Variables "conv0/weight", "conv0/bias", ..., "fc/...", "head/...".
Tensor ConvNetLogits(const ConvNetConfig& config, const Tensor& images, bool training);

// The graphs "train" and, if asked for, "evaluate". InvalidArgument naming the field if the config is impossible or the
// images are too small to be halved once per convolution.
absl::StatusOr<std::vector<Graph>> ConvNetProgram(const ConvNetConfig& config, const ImageData& data,
                                                  const BatchSizes& batches, const OpRegistry& ops);

}  // namespace oneflow
