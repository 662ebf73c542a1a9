// Normalisations over the last dimension, and over groups of channels, with learned parameters.
#pragma once

#include <source_location>

#include "oneflow_core/builder.h"

namespace oneflow::nn {

// Layer normalisation. Variables "name/weight" (starts as ones) and "name/bias" (zeros). The builder fails with
// InvalidArgument if x is a scalar.
Tensor LayerNorm(const Tensor& x, absl::string_view name, double epsilon = 1e-5,
                 std::source_location loc = std::source_location::current());

// Root-mean-square normalisation. Variable "name/weight", which starts as ones. Errors as of LayerNorm.
Tensor RmsNorm(const Tensor& x, absl::string_view name, double epsilon = 1e-5,
               std::source_location loc = std::source_location::current());

// The same times 1 + weight, where the weight starts as zeros, as of Gemma.
Tensor OffsetRmsNorm(const Tensor& x, absl::string_view name, double epsilon = 1e-5,
                     std::source_location loc = std::source_location::current());

// Normalisation of every sample of x [n,c,..] over each of `groups` groups of channels; over each channel. Variables
// "name/weight" (ones) and "name/bias" (zeros), for each channel. The builder fails with InvalidArgument unless the
// groups divide the channels.
Tensor GroupNorm(const Tensor& x, absl::string_view name, int64_t groups, double epsilon = 1e-5,
                 std::source_location loc = std::source_location::current());
Tensor InstanceNorm(const Tensor& x, absl::string_view name, double epsilon = 1e-5,
                    std::source_location loc = std::source_location::current());

}  // namespace oneflow::nn
