// What is in weights, and in what two of them differ: texts for `oneflow weights ls` and `diff`.
#pragma once

#include <string>

#include "oneflow_core/status.h"

namespace oneflow {

// A line for each tensor: name, dtype, shape, bytes, file; then their number and what they take together. Errors of
// Weights::Open().
absl::StatusOr<std::string> WeightsText(const std::string& path);

// A line for each tensor that only one has, or that has another type or other elements, with the largest difference of
// those. Empty: they are the same. Errors of Weights::Open() and Read().
absl::StatusOr<std::string> WeightsDiffText(const std::string& a, const std::string& b);

}  // namespace oneflow
