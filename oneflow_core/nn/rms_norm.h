// Root-mean-square normalisation over the last dimension, with a learned scale.
#pragma once

#include <source_location>

#include "oneflow_core/builder.h"

namespace oneflow::nn {

// Variable "name/weight", which starts as ones. The builder fails with InvalidArgument if x is a scalar.
Tensor RmsNorm(const Tensor& x, absl::string_view name, double epsilon = 1e-5,
               std::source_location loc = std::source_location::current());

}  // namespace oneflow::nn
