// What the kinds of data share: the name of a split, and how the samples of a batch lie.
#pragma once

#include <source_location>
#include <string>

#include "oneflow_core/models/data.h"

namespace oneflow {

// The attribute 'split'.
inline std::string SplitName(DataSplit split) { return split == DataSplit::kTrain ? "train" : "validation"; }

// Samples dealt out along mesh axis "dp".
inline Batch DealtOut(const Tensor& inputs, const Tensor& labels, std::source_location loc) {
  const SbpHint by_sample = {{"dp", Sbp::Split(0)}};
  return {inputs.To(by_sample, loc), labels.To(by_sample, loc)};
}

}  // namespace oneflow
