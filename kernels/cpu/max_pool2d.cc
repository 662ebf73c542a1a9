// Max pooling without padding. The forward pass keeps the position h * W + w of each maximum (the first of equal ones);
// the gradient adds to these positions, a plane (n, c) per task.
#include <algorithm>
#include <atomic>

#include "kernels/cpu/half.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"

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

template <typename T>
const char* MaxPool2d(const KernelArgs& args) {
  const TensorArg& x = args.in[0];
  const TensorArg& y = args.out[0];
  const int64_t kernel = args.attrs->Int("kernel"), stride = args.attrs->Int("stride", kernel);
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

// Planes of narrow numbers are summed in floats, one for each thread.
size_t PlaneWorkspace(const KernelArgs& args) {
  return static_cast<size_t>(args.threads * PlaneSize(args.out[0])) * sizeof(float);
}

// Adds a plane of dy to its positions; false if one is outside.
template <typename T>
bool AddPlane(const T* dy, const int32_t* index, int64_t outputs, float* dx, int64_t inputs) {
  bool is_inside = true;
  std::fill(dx, dx + inputs, 0.0f);
  for (int64_t i = 0; i < outputs; ++i) {
    if (index[i] >= 0 && index[i] < inputs) {
      dx[index[i]] += ToFloat(dy[i]);
    } else {
      is_inside = false;
    }
  }
  return is_inside;
}

// in: dy, index.
template <typename T>
const char* MaxPool2dGrad(const KernelArgs& args) {
  const TensorArg& dy = args.in[0];
  const int32_t* const index = args.in[1].as<const int32_t>();
  const int64_t outputs = PlaneSize(dy), inputs = PlaneSize(args.out[0]);
  std::atomic<bool> is_outside = false;
  ParallelForThread(dy.dims[0] * dy.dims[1], Grain(2 * sizeof(T) * inputs), args.threads,
                    [&](int64_t begin, int64_t end, int thread) {
                      for (int64_t plane = begin; plane < end; ++plane) {
                        T* const dx = args.out[0].as<T>() + plane * inputs;
                        float* sums = nullptr;
                        if constexpr (Half<T>) {
                          sums = static_cast<float*>(args.workspace) + thread * inputs;
                        } else {
                          sums = dx;
                        }
                        const bool is_inside = AddPlane(dy.as<const T>() + plane * outputs, index + plane * outputs,
                                                        outputs, sums, inputs);
                        if (!is_inside) is_outside = true;
                        if constexpr (Half<T>) {
                          VecLoop(inputs, [&](int64_t i, auto lanes) { Store(dx + i, Load(sums + i, lanes), lanes); });
                        }
                      }
                    });
  return is_outside ? "max_pool2d_grad: an index is outside the plane" : nullptr;
}

}  // namespace

KernelList MaxPool2dKernels() {
  return {OF_FLOAT_KERNELS("max_pool2d", MaxPool2d),
          {"max_pool2d_grad", DType::kFloat32, MaxPool2dGrad<float>},
          {"max_pool2d_grad", DType::kBFloat16, MaxPool2dGrad<BFloat16>, PlaneWorkspace},
          {"max_pool2d_grad", DType::kFloat16, MaxPool2dGrad<Float16>, PlaneWorkspace}};
}

}  // namespace oneflow::cpu
