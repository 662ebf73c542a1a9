#include "oneflow_core/nn/lying.h"

namespace oneflow::nn {

Tensor Lying(const Tensor& x, const Sbp& sbp, bool gradient) {
  if (!x.valid()) return x;
  const Tensor result = x.builder()->Op1("to", {x}, {{"gradient", gradient}});
  if (result.valid()) result.builder()->mutable_graph().value(result.id()).hint = {{"tp", sbp}};
  return result;
}

}  // namespace oneflow::nn
