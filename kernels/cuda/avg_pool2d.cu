// Average pooling and its gradient, by windows of a kernel or adaptive ones. Both gather: an element of y is a sum over
// its window, and one of dx a sum over the windows that cover it, so that no two threads add to one place.
#include "kernels/cuda/half.cuh"
#include "kernels/cuda/loops.cuh"
#include "kernels/kernel_lists.h"
#include "kernels/pool_windows.h"

namespace oneflow::cuda {
namespace {

template <typename T, bool kGradient = false>
const char* AvgPool2d(const KernelArgs& args) {
  const TensorArg &from = args.in[0], &to = args.out[0];
  const PoolGather<kGradient> gather(*args.attrs, from, to);
  const int64_t width = from.dims[3], size = from.dims[2] * width;
  const T* const x = from.as<const T>();
  T* const y = to.as<T>();
  const auto sum_up = [=] __device__(int64_t i, int64_t plane, int64_t row, int64_t column) {
    const PoolRange rows = gather.Rows(row), columns = gather.Columns(column);
    float sum = 0;
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      for (int64_t s = columns.begin; s < columns.end; ++s) {
        sum += gather.Share(row, column, r, s) * Widen(x[plane * size + r * width + s]);
      }
    }
    y[i] = Narrow<T>(sum);
  };
  return ForEach(Stream(args), {to.dims[0] * to.dims[1], to.dims[2], to.dims[3]}, sum_up);
}
template <typename T>
constexpr KernelFn AvgPool2dGrad = AvgPool2d<T, /*kGradient=*/true>;

}  // namespace

KernelList AvgPool2dKernels() { return {OF_AVG_POOL2D_KERNELS}; }

}  // namespace oneflow::cuda
