// Rows of a table, looked up by index.
#pragma once

#include <source_location>
#include <string>

#include "oneflow_core/builder.h"

namespace oneflow::nn {

struct EmbeddingOptions {
  int64_t rows = 0;
  int64_t width = 0;
  std::string init = "normal(0.02)";
  SbpHint hint;
};

// The table [rows, width]: variable "name/weight". Asked for twice it is the same table, as a tied output head wants.
Tensor EmbeddingTable(GraphBuilder& b, absl::string_view name, const EmbeddingOptions& options,
                      std::source_location loc = std::source_location::current());

// y[T...,width] = table[ids[T...]].
Tensor Embedding(const Tensor& ids, absl::string_view name, const EmbeddingOptions& options,
                 std::source_location loc = std::source_location::current());

}  // namespace oneflow::nn
