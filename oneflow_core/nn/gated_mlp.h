// The gated two-layer block of a transformer (Shazeer, "GLU Variants Improve Transformer", 2020):
//
//   out = down(act(gate(x)) * up(x))        act: silu (SwiGLU) or tanh GELU (GeGLU)
//
// On mesh axis "tp" `gate` and `up` are split by columns and `down` by rows, so that one reduction at the end is all
// the communication.
#pragma once

#include <source_location>
#include <string>

#include "oneflow_core/builder.h"

namespace oneflow::nn {

struct GatedMlpOptions {
  int64_t hidden = 0;
  std::string init = "normal(0.02)";
  std::string output_init = "normal(0.02)";  // of down, which writes to the residual stream
  bool gelu = false;                         // act is tanh GELU, not silu
};

// As wide as x. Variables "name/{gate,up,down}/weight". Fails as Linear() does.
Tensor GatedMlp(const Tensor& x, absl::string_view name, const GatedMlpOptions& options,
                std::source_location loc = std::source_location::current());

}  // namespace oneflow::nn
