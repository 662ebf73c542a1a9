// The two-layer block of a transformer: out = down(gelu(up(x))). On mesh axis "tp" `up` is split by columns and `down`
// by rows, so that one reduction at the end is all the communication.
#pragma once

#include <source_location>
#include <string>

#include "oneflow_core/builder.h"

namespace oneflow::nn {

struct MlpOptions {
  int64_t hidden = 0;
  std::string init = "normal(0.02)";         // of up
  std::string output_init = "normal(0.02)";  // of down, which writes to the residual stream
  bool gelu_tanh = false;                    // gelu is approximated by tanh
  // What lies between the layers is asked to be split by columns on mesh axis "tp", with its gradient; else only the
  // weights are.
  bool says_how_it_lies = false;
};

// As wide as x. Variables "name/{up,down}/{weight,bias}". Fails as Linear() does.
Tensor Mlp(const Tensor& x, absl::string_view name, const MlpOptions& options,
           std::source_location loc = std::source_location::current());

}  // namespace oneflow::nn
