// y[T...,out] = x[T...,in] weight[in,out] + bias[out].
//
// The weight is stored as [in, out], so that its columns are the outputs. The two ways to share a pair of layers among
// the ranks of the mesh axis "tp" (Megatron's) are ready as options:
//
//   x B ──► ColumnSplit: weight S(1), bias S(0) ──► S(last) ──► RowSplit: weight S(0) ──► P ──► B ──► + bias B
//
// The bias of the second is added after the addends are reduced; adding it before would count it once per rank.
#pragma once

#include <optional>
#include <source_location>
#include <string>

#include "oneflow_core/builder.h"

namespace oneflow::nn {

struct LinearOptions {
  int64_t width = 0;  // of the output
  bool bias = true;   // starts as zeros
  std::string init = "normal(0.02)";
  SbpHint weight_hint;
  SbpHint bias_hint;
  std::optional<Sbp> product;  // how the product, without the bias, lies on mesh axis "tp"; nothing: as is cheapest
};

LinearOptions ColumnSplit(int64_t width, std::string init);
LinearOptions RowSplit(int64_t width, std::string init);

// Variables "name/weight" and "name/bias". The builder fails with InvalidArgument if x is a scalar or the width is not
// positive.
Tensor Linear(const Tensor& x, absl::string_view name, const LinearOptions& options,
              std::source_location loc = std::source_location::current());

}  // namespace oneflow::nn
