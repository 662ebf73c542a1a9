#include "oneflow_core/nn/patches.h"

#include "oneflow_core/functional.h"
#include "oneflow_core/nn/conv2d.h"

namespace oneflow::nn {

Tensor Patches(const Tensor& images, absl::string_view name, int64_t patch, int64_t width, const std::string& init,
               std::source_location loc) {
  if (!images.valid()) return Tensor();
  const Shape& shape = images.shape();
  if (shape.rank() == 4 && (shape[2] % patch != 0 || shape[3] % patch != 0)) {
    images.builder()->Fail(
        absl::InvalidArgumentError(absl::StrCat("patches '", name, "': images of ", shape[2], "x", shape[3],
                                                " cannot be cut into patches of ", patch, "x", patch)));
    return Tensor();
  }
  const Tensor grid = Conv2d(images, name, {.channels = width, .kernel = patch, .stride = patch, .init = init}, loc);
  if (!grid.valid()) return Tensor();
  return Transpose(Reshape(grid, {grid.shape()[0], width, -1}, loc), {0, 2, 1}, loc);
}

}  // namespace oneflow::nn
