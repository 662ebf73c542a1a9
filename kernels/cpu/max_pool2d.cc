// Max pooling without padding. The forward pass keeps the position h * W + w of each maximum (the first of equal ones);
// the gradient adds to these positions, a plane (n, c) per task.
#include <atomic>
#include <cmath>

#include "kernels/copy.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"

namespace oneflow::cpu {
namespace {

const char* MaxPool2d(const KernelArgs& args) {
  const TensorArg& x = args.in[0];
  const TensorArg& y = args.out[0];
  const int64_t kernel = args.attrs->Int("kernel"), stride = args.attrs->Int("stride", kernel);
  const int64_t height = x.dims[2], width = x.dims[3], p = y.dims[2], q = y.dims[3];
  ParallelFor(x.dims[0] * x.dims[1], Grain(2 * sizeof(float) * height * width), [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      const float* const from = x.as<const float>() + plane * height * width;
      for (int64_t i = 0; i < p * q; ++i) {
        const int64_t top = i / q * stride, left = i % q * stride;
        int64_t best = top * width + left;
        for (int64_t at = 0; at < kernel * kernel; ++at) {
          const int64_t candidate = (top + at / kernel) * width + left + at % kernel;
          if (from[candidate] > from[best] || std::isnan(from[candidate])) best = candidate;
        }
        y.as<float>()[plane * p * q + i] = from[best];
        args.out[1].as<int32_t>()[plane * p * q + i] = static_cast<int32_t>(best);
      }
    }
  });
  return nullptr;
}

// in: dy, index.
const char* MaxPool2dGrad(const KernelArgs& args) {
  const TensorArg& dy = args.in[0];
  const int32_t* const index = args.in[1].as<const int32_t>();
  const int64_t outputs = dy.dims[2] * dy.dims[3], inputs = args.out[0].dims[2] * args.out[0].dims[3];
  std::atomic<bool> is_outside = false;
  ParallelFor(dy.dims[0] * dy.dims[1], Grain(2 * sizeof(float) * inputs), [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      float* const dx = args.out[0].as<float>() + plane * inputs;
      FillZero(dx, static_cast<size_t>(inputs) * sizeof(float));
      for (int64_t i = plane * outputs; i < (plane + 1) * outputs; ++i) {
        if (index[i] >= 0 && index[i] < inputs) {
          dx[index[i]] += dy.as<const float>()[i];
        } else {
          is_outside = true;
        }
      }
    }
  });
  return is_outside ? "max_pool2d_grad: an index is outside the plane" : nullptr;
}

}  // namespace

KernelList MaxPool2dKernels() {
  return {{"max_pool2d", DType::kFloat32, MaxPool2d}, {"max_pool2d_grad", DType::kFloat32, MaxPool2dGrad}};
}

}  // namespace oneflow::cpu
