// For models that do not leave it to the compiler how their tensors lie.
#pragma once

#include "oneflow_core/builder.h"

namespace oneflow::nn {

// `x`, asked to lie on the mesh axis "tp" as said, and, if `gradient`, its gradient too; where `x` is partial that is
// whole.
Tensor Lying(const Tensor& x, const Sbp& sbp, bool gradient);

}  // namespace oneflow::nn
