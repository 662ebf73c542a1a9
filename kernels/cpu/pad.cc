// pad: a constant around x, and x in its place; all are box copies. The margin is cut into two boxes per dimension, of
// which none lies in another, so that nothing is written twice.
//
//   a a a a a     dimension 0: above and below, whole rows
//   b x x x c     dimension 1: left and right, of the rows that are left
//   d d d d d
#include <vector>

#include "kernels/copy.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/kernels.h"

namespace oneflow::cpu {
namespace {

// A split dimension is not padded, so its margin is 0 in every shard too.
template <typename T>
const char* Pad(const KernelArgs& args) {
  const TensorArg &x = args.in[0], &y = args.out[0];
  const T value = As<T>(args.attrs->Double("value"));
  std::vector<int64_t> before = args.attrs->Ints("before");
  const std::vector<int64_t> inner = DimsInMemory(x), strides = Strides(y);
  before.resize(inner.size(), 0);
  std::vector<int64_t> extent = DimsInMemory(y);
  const std::vector<int64_t> repeat(extent.size(), 0);
  T* at = y.as<T>();  // the first element of what is left
  const auto fill = [&](size_t dim, int64_t first, int64_t size) -> const char* {
    std::vector<int64_t> box = extent;
    box[dim] = size;
    return CopyRegion({y.dtype, box, &value, repeat, at + first * strides[dim], strides});
  };
  for (size_t d = 0; d < extent.size(); ++d) {
    const int64_t end = before[d] + inner[d];
    if (const char* error = fill(d, 0, before[d])) return error;
    if (const char* error = fill(d, end, extent[d] - end)) return error;
    at += before[d] * strides[d];
    extent[d] = inner[d];
  }
  return CopyRegion({x.dtype, inner, x.data, Strides(x), at, strides});
}

}  // namespace

KernelList PadKernels() { return {OF_PAD_KERNELS}; }

}  // namespace oneflow::cpu
