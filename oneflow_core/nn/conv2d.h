// 2-d convolutions with a square kernel: y[n,o,p,q] = sum over c,i,j of x[n,c,...] * weight[o,c,i,j] + bias[o], and
// their transposes.
#pragma once

#include <source_location>
#include <string>

#include "oneflow_core/builder.h"

namespace oneflow::nn {

struct Conv2dOptions {
  int64_t channels = 0;  // of the output
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t dilation = 1;
  int64_t groups = 1;  // as many as channels: depthwise
  bool bias = true;    // starts as zeros
  std::string init;    // empty: HeUniform over the kernel's inputs
};

// x is [n, c, h, w]. Variables "name/weight" and "name/bias". The builder fails with InvalidArgument if x is not of
// four dimensions, a size is not positive, or the groups do not divide the channels.
Tensor Conv2d(const Tensor& x, absl::string_view name, const Conv2dOptions& options,
              std::source_location loc = std::source_location::current());

// The transposed convolution, which makes an image larger by the stride. The weight is [c, channels / groups, i, j];
// `output_padding` as of oneflow::ConvTranspose2d. Else as Conv2d.
Tensor ConvTranspose2d(const Tensor& x, absl::string_view name, const Conv2dOptions& options,
                       int64_t output_padding = 0, std::source_location loc = std::source_location::current());

}  // namespace oneflow::nn
