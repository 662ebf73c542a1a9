// softmax over the last dimension and its gradient dx = y (dy - sum(dy y)), in float whatever the elements are. A row
// stays in the nearest cache between its passes.
#include <cmath>

#include "kernels/cpu/half.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vec.h"

namespace oneflow::cpu {
namespace {

template <typename T>
const char* Softmax(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]);
  ParallelFor(Rows(args.in[0]), Grain(2 * sizeof(T) * c), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* const x = args.in[0].as<const T>() + row * c;
      T* const y = args.out[0].as<T>() + row * c;
      F32s max = Splat(-INFINITY);
      VecLoop(c, [&](int64_t i, auto lanes) { max = Max(max, Load(x + i, lanes, -INFINITY)); });
      const F32s top = Splat(MaxOf(max));
      F32s sum = Splat(0);
      VecLoop(c, [&](int64_t i, auto lanes) {
        const F32s e = Keep(Exp(Load(x + i, lanes) - top), lanes);
        sum += e;
        if constexpr (!Half<T>) Store(y + i, e, lanes);
      });
      const F32s inverse = Splat(1.0f / Sum(sum));
      VecLoop(c, [&](int64_t i, auto lanes) {
        // What is rounded to 16 bits is made again, so that it is rounded once.
        const F32s e = [&] {
          if constexpr (Half<T>)
            return Exp(Load(x + i, lanes) - top);
          else
            return Load(y + i, lanes);
        }();
        Store(y + i, e * inverse, lanes);
      });
    }
  });
  return nullptr;
}

// in: dy, y.
template <typename T>
const char* SoftmaxGrad(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]);
  ParallelFor(Rows(args.in[0]), Grain(3 * sizeof(T) * c), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* const dy = args.in[0].as<const T>() + row * c;
      const T* const y = args.in[1].as<const T>() + row * c;
      T* const dx = args.out[0].as<T>() + row * c;
      F32s dot = Splat(0);
      VecLoop(c, [&](int64_t i, auto lanes) { dot += Load(dy + i, lanes) * Load(y + i, lanes); });
      const F32s mean = Splat(Sum(dot));
      VecLoop(c,
              [&](int64_t i, auto lanes) { Store(dx + i, Load(y + i, lanes) * (Load(dy + i, lanes) - mean), lanes); });
    }
  });
  return nullptr;
}

}  // namespace

KernelList SoftmaxKernels() {
  return {OF_FLOAT_KERNELS("softmax", Softmax), OF_FLOAT_KERNELS("softmax_grad", SoftmaxGrad)};
}

}  // namespace oneflow::cpu
