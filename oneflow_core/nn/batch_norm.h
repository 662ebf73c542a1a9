// Batch normalisation of channels (dimension 1), with a learned scale and shift, and averages of the statistics for
// later.
//
//   training   y by the statistics of the batch, wherever its samples lie;   running = 0.9 running + 0.1 of the batch
//   otherwise  y by the running statistics
//
// A step of several micro-batches normalises each of them by its own statistics and adds their mean to the running ones
// once.
#pragma once

#include <source_location>

#include "oneflow_core/builder.h"

namespace oneflow::nn {

struct BatchNormOptions {
  bool training = false;
  double epsilon = 1e-5;
  double momentum = 0.1;  // the batch's share in the running statistics
  bool scaled = true;     // by a learned weight
};

// Variables "name/weight" (starts as ones), if it is scaled, "name/bias" (zeros), and the statistics
// "name/running_mean" (zeros) and "name/running_var" (ones), which averages unbiased variances. The builder fails with
// InvalidArgument if x has fewer than two dimensions, momentum is not in (0, 1], or, in training, a channel has fewer
// than two elements.
Tensor BatchNorm(const Tensor& x, absl::string_view name, const BatchNormOptions& options,
                 std::source_location loc = std::source_location::current());

}  // namespace oneflow::nn
