#include "oneflow_core/nn/layers.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace oneflow::nn {

Tensor Layers(Tensor x, int64_t count, absl::FunctionRef<Tensor(const Tensor& x, int64_t layer)> block) {
  for (int64_t layer = 0; layer < count && x.valid(); ++layer) {
    const GraphBuilder::Scope scope(*x.builder(), absl::StrCat("h", layer));
    const GraphBuilder::Segment segment(*x.builder(), "layers");
    x = block(x, layer);
  }
  return x;
}

}  // namespace oneflow::nn
