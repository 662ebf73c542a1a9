// Average pooling and its gradient, by windows of a kernel or adaptive ones. Both gather: an element of y is a sum over
// its window, and one of dx a sum over the windows that cover it. A plane (n, c) per task, or in blocks of channels
// sixteen of them at once.
#include "kernels/cpu/half.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/kernel_lists.h"
#include "kernels/pool_windows.h"

namespace oneflow::cpu {
namespace {

// Planes of kChannels numbers side by side.
template <int64_t kChannels, typename T, bool kGradient>
void GatherPlanes(const TensorArg& x, const TensorArg& y, const PoolGather<kGradient>& gather) {
  const int64_t x_width = x.dims[3], x_plane = x.dims[2] * x_width, height = y.dims[2], width = y.dims[3];
  const int64_t planes = y.dims[0] * y.dims[1] / kChannels;
  ParallelFor(planes, Grain(sizeof(T) * kChannels * (x_plane + height * width)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * height * width; i < end * height * width; ++i) {
      const T* const from = x.as<const T>() + i / (height * width) * x_plane * kChannels;
      const int64_t row = i / width % height, column = i % width;
      const PoolRange rows = gather.Rows(row), columns = gather.Columns(column);
      float sums[kChannels] = {};
      for (int64_t r = rows.begin; r < rows.end; ++r) {
        for (int64_t s = columns.begin; s < columns.end; ++s) {
          const float share = gather.Share(row, column, r, s);
          const T* const at = from + (r * x_width + s) * kChannels;
          for (int64_t c = 0; c < kChannels; ++c) sums[c] += share * ToFloat(at[c]);
        }
      }
      for (int64_t c = 0; c < kChannels; ++c) FromFloat(sums[c], y.as<T>() + i * kChannels + c);
    }
  });
}

template <typename T, bool kGradient = false>
const char* AvgPool2d(const KernelArgs& args) {
  const PoolGather<kGradient> gather(*args.attrs, args.in[0], args.out[0]);
  if (args.in[0].in_blocks()) {
    GatherPlanes<kBlockChannels, T>(args.in[0], args.out[0], gather);
  } else {
    GatherPlanes<1, T>(args.in[0], args.out[0], gather);
  }
  return nullptr;
}
template <typename T>
constexpr KernelFn AvgPool2dGrad = AvgPool2d<T, /*kGradient=*/true>;

}  // namespace

KernelList AvgPool2dKernels() { return {OF_AVG_POOL2D_KERNELS}; }

}  // namespace oneflow::cpu
