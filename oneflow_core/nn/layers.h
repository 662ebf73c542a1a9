// Blocks of one form, one behind the other.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "oneflow_core/builder.h"

namespace oneflow::nn {

// x through `count` blocks. Block i is made in scope "h<i>" and is a segment "layers" of its own, where a pipeline may
// be cut and recomputation may begin.
Tensor Layers(Tensor x, int64_t count, absl::FunctionRef<Tensor(const Tensor& x, int64_t layer)> block);

}  // namespace oneflow::nn
