// An image as a sequence of square patches, each a linear map of its pixels.
#pragma once

#include <cstdint>
#include <source_location>
#include <string>

#include "oneflow_core/builder.h"

namespace oneflow::nn {

// Images [n,c,h,w] as [n,tokens,width], the patches of a row of the image before those of the next. Variables
// "name/weight", a kernel as large as a patch, and "name/bias". Fails as Conv2d() does, and with InvalidArgument if the
// images are not of whole patches.
Tensor Patches(const Tensor& images, absl::string_view name, int64_t patch, int64_t width, const std::string& init,
               std::source_location loc = std::source_location::current());

}  // namespace oneflow::nn
