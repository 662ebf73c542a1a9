// softmax over the last dimension and its gradient dx = y (dy - sum(dy y)). A row stays in the nearest cache between
// its passes.
#include <cmath>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vec.h"

namespace oneflow::cpu {
namespace {

const char* Softmax(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]);
  ParallelFor(Rows(args.in[0]), Grain(2 * sizeof(float) * c), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* const x = args.in[0].as<const float>() + row * c;
      float* const y = args.out[0].as<float>() + row * c;
      F32x16 max = Splat(-INFINITY);
      VecLoop(c, [&](int64_t i, auto lanes) { max = Max(max, Load(x + i, lanes, -INFINITY)); });
      const F32x16 top = Splat(MaxOf(max));
      F32x16 sum = Splat(0);
      VecLoop(c, [&](int64_t i, auto lanes) {
        const F32x16 e = Keep(Exp(Load(x + i, lanes) - top), lanes);
        sum += e;
        Store(y + i, e, lanes);
      });
      const F32x16 inverse = Splat(1.0f / Sum(sum));
      VecLoop(c, [&](int64_t i, auto lanes) { Store(y + i, Load(y + i, lanes) * inverse, lanes); });
    }
  });
  return nullptr;
}

// in: dy, y.
const char* SoftmaxGrad(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]);
  ParallelFor(Rows(args.in[0]), Grain(3 * sizeof(float) * c), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* const dy = args.in[0].as<const float>() + row * c;
      const float* const y = args.in[1].as<const float>() + row * c;
      float* const dx = args.out[0].as<float>() + row * c;
      F32x16 dot = Splat(0);
      VecLoop(c, [&](int64_t i, auto lanes) { dot += Load(dy + i, lanes) * Load(y + i, lanes); });
      const F32x16 mean = Splat(Sum(dot));
      VecLoop(c,
              [&](int64_t i, auto lanes) { Store(dx + i, Load(y + i, lanes) * (Load(dy + i, lanes) - mean), lanes); });
    }
  });
  return nullptr;
}

}  // namespace

KernelList SoftmaxKernels() {
  return {{"softmax", DType::kFloat32, Softmax}, {"softmax_grad", DType::kFloat32, SoftmaxGrad}};
}

}  // namespace oneflow::cpu
