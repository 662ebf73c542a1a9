// Max pooling without padding. The forward pass keeps the position h * W + w of each maximum (the first of equal ones);
// the gradient adds to these positions, a plane (n, c) per task, or in blocks of channels sixteen of them at once.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "kernels/cpu/half.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vec.h"

namespace oneflow::cpu {
namespace {

constexpr int64_t kColumns = 64;  // of outputs at a time

// The maxima of `count` windows beside one another, whose first corner is at `corner` of a plane, and where they are.
// Element by element of the windows, so that the windows are vectors.
template <typename T>
void PoolWindows(const T* plane, int64_t width, int64_t kernel, int64_t stride, int64_t corner, int64_t count, T* y,
                 int32_t* index) {
  float largest[kColumns];
  int32_t best[kColumns];
  for (int64_t i = 0; i < count; ++i) {
    best[i] = static_cast<int32_t>(corner + i * stride);
    largest[i] = ToFloat(plane[best[i]]);
  }
  for (int64_t at = 1; at < kernel * kernel; ++at) {
    const int64_t first = corner + at / kernel * width + at % kernel;
    for (int64_t i = 0; i < count; ++i) {
      const float value = ToFloat(plane[first + i * stride]);
      const bool is_larger = (value > largest[i]) | (value != value);  // a NaN is the maximum
      largest[i] = is_larger ? value : largest[i];
      best[i] = is_larger ? static_cast<int32_t>(first + i * stride) : best[i];
    }
  }
  for (int64_t i = 0; i < count; ++i) {
    y[i] = plane[best[i]];
    index[i] = best[i];
  }
}

// A window of the channels of a vector, whose first corner is at pixel `corner` of a block.
template <typename T>
OF_INLINE void PoolWindowOfBlock(const T* block, int64_t width, int64_t kernel, int64_t corner, T* y, int32_t* index) {
  F32s largest = Load(block + corner * kBlockChannels);
  I32s best = I32s{} + static_cast<int32_t>(corner);
  for (int64_t row = 0; row < kernel; ++row) {
    for (int64_t column = row == 0 ? 1 : 0; column < kernel; ++column) {
      const int64_t pixel = corner + row * width + column;
      const F32s value = Load(block + pixel * kBlockChannels);
      const I32s is_larger = (value > largest) | (value != value);
      largest = is_larger ? value : largest;
      best = is_larger ? I32s{} + static_cast<int32_t>(pixel) : best;
    }
  }
  Store(y, largest);
  std::memcpy(index, &best, sizeof(best));
}

template <typename T>
void PoolBlocks(const KernelArgs& args, int64_t kernel, int64_t stride) {
  const TensorArg &x = args.in[0], &y = args.out[0];
  const int64_t width = x.dims[3], p = y.dims[2], q = y.dims[3], block = x.dims[2] * width * kBlockChannels;
  const int64_t blocks = x.dims[0] * x.dims[1] / kBlockChannels;
  ParallelFor(blocks * p, Grain(2 * sizeof(T) * stride * width * kBlockChannels), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {  // of outputs
      const T* const from = x.as<const T>() + row / p * block;
      for (int64_t i = 0; i < q * kBlockChannels; i += kLanes) {
        const int64_t corner = row % p * stride * width + i / kBlockChannels * stride;
        const int64_t to = row * q * kBlockChannels + i;
        PoolWindowOfBlock(from + i % kBlockChannels, width, kernel, corner, y.as<T>() + to,
                          args.out[1].as<int32_t>() + to);
      }
    }
  });
}

template <typename T>
const char* MaxPool2d(const KernelArgs& args) {
  const TensorArg& x = args.in[0];
  const TensorArg& y = args.out[0];
  const int64_t kernel = args.attrs->Int("kernel"), stride = args.attrs->Int("stride", kernel);
  if (x.in_blocks()) {
    PoolBlocks<T>(args, kernel, stride);
    return nullptr;
  }
  const int64_t height = x.dims[2], width = x.dims[3], p = y.dims[2], q = y.dims[3];
  ParallelFor(x.dims[0] * x.dims[1], Grain(2 * sizeof(T) * height * width), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin * p; row < end * p; ++row) {  // of outputs
      const T* const plane = x.as<const T>() + row / p * height * width;
      for (int64_t column = 0; column < q; column += kColumns) {
        PoolWindows(plane, width, kernel, stride, row % p * stride * width + column * stride,
                    std::min(kColumns, q - column), y.as<T>() + row * q + column,
                    args.out[1].as<int32_t>() + row * q + column);
      }
    }
  });
  return nullptr;
}

int64_t PlaneSize(const TensorArg& x) { return x.dims[2] * x.dims[3]; }
// Channels that lie side by side.
int64_t PlaneChannels(const TensorArg& x) { return x.in_blocks() ? kBlockChannels : 1; }

// Planes of narrow numbers are summed in floats, one for each thread.
size_t PlaneWorkspace(const KernelArgs& args) {
  const TensorArg& dx = args.out[0];
  return static_cast<size_t>(args.threads * PlaneSize(dx) * PlaneChannels(dx)) * sizeof(float);
}

// Adds a plane of dy to its positions, or the planes of kChannels that lie side by side; false if one is outside.
template <int64_t kChannels, typename T>
bool AddPlane(const T* dy, const int32_t* index, int64_t outputs, float* dx, int64_t inputs) {
  bool is_inside = true;
  std::fill(dx, dx + inputs * kChannels, 0.0f);
  for (int64_t i = 0; i < outputs * kChannels; i += kChannels) {
    for (int64_t channel = 0; channel < kChannels; ++channel) {
      const int64_t at = index[i + channel];
      if (at >= 0 && at < inputs) {
        dx[at * kChannels + channel] += ToFloat(dy[i + channel]);
      } else {
        is_inside = false;
      }
    }
  }
  return is_inside;
}

template <int64_t kChannels, typename T>
const char* AddPlanes(const KernelArgs& args) {
  const TensorArg& dy = args.in[0];
  const int32_t* const index = args.in[1].as<const int32_t>();
  const int64_t outputs = PlaneSize(dy), inputs = PlaneSize(args.out[0]), count = inputs * kChannels;
  std::atomic<bool> is_outside = false;
  ParallelForThread(dy.dims[0] * dy.dims[1] / kChannels, Grain(2 * sizeof(T) * count), args.threads,
                    [&](int64_t begin, int64_t end, int thread) {
                      for (int64_t plane = begin; plane < end; ++plane) {
                        T* const dx = args.out[0].as<T>() + plane * count;
                        const int64_t from = plane * outputs * kChannels;
                        float* sums = nullptr;
                        if constexpr (Half<T>) {
                          sums = static_cast<float*>(args.workspace) + thread * count;
                        } else {
                          sums = dx;
                        }
                        if (!AddPlane<kChannels>(dy.as<const T>() + from, index + from, outputs, sums, inputs)) {
                          is_outside = true;
                        }
                        if constexpr (Half<T>) {
                          VecLoop(count, [&](int64_t i, auto lanes) { Store(dx + i, Load(sums + i, lanes), lanes); });
                        }
                      }
                    });
  return is_outside ? "max_pool2d_grad: an index is outside the plane" : nullptr;
}

// in: dy, index.
template <typename T>
const char* MaxPool2dGrad(const KernelArgs& args) {
  return args.in[0].in_blocks() ? AddPlanes<kBlockChannels, T>(args) : AddPlanes<1, T>(args);
}

}  // namespace

KernelList MaxPool2dKernels() {
  return {OF_FLOAT_KERNELS("max_pool2d", MaxPool2d),
          {"max_pool2d_grad", DType::kFloat32, MaxPool2dGrad<float>},
          {"max_pool2d_grad", DType::kBFloat16, MaxPool2dGrad<BFloat16>, PlaneWorkspace},
          {"max_pool2d_grad", DType::kFloat16, MaxPool2dGrad<Float16>, PlaneWorkspace}};
}

}  // namespace oneflow::cpu
