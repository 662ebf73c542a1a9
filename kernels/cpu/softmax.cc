// softmax over the last dimension and its gradient dx = y (dy - sum(dy y)), in float whatever the elements are. A row
// stays in the nearest cache between its passes.
#include "kernels/cpu/half.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/softmax_rows.h"
#include "kernels/cpu/vec.h"

namespace oneflow::cpu {
namespace {

template <typename T>
const char* Softmax(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]);
  ForRows(Rows(args.in[0]), 2 * sizeof(T) * c, [&](int64_t row) {
    const T* const x = args.in[0].as<const T>() + row * c;
    T* const y = args.out[0].as<T>() + row * c;
    const F32s top = Splat(LargestOf(x, c));
    F32s sum = Splat(0);
    VecLoop(c, [&](int64_t i, auto lanes) {
      const F32s e = Keep(Exp(Load(x + i, lanes) - top), lanes);
      sum += e;
      if constexpr (!Half<T>) Store(y + i, e, lanes);
    });
    const F32s inverse = Splat(1.0f / Sum(sum));
    VecLoop(c, [&](int64_t i, auto lanes) {
      // A result of 16 bits is computed again, so that it is rounded once.
      const F32s e = [&] {
        if constexpr (Half<T>)
          return Exp(Load(x + i, lanes) - top);
        else
          return Load(y + i, lanes);
      }();
      Store(y + i, e * inverse, lanes);
    });
  });
  return nullptr;
}

// in: dy, y.
template <typename T>
const char* SoftmaxGrad(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]);
  ForRows(Rows(args.in[0]), 3 * sizeof(T) * c, [&](int64_t row) {
    const T* const dy = args.in[0].as<const T>() + row * c;
    const T* const y = args.in[1].as<const T>() + row * c;
    SoftmaxGradRow(dy, y, c, DotOf(dy, y, c), args.out[0].as<T>() + row * c);
  });
  return nullptr;
}

}  // namespace

KernelList SoftmaxKernels() {
  return {OF_FLOAT_KERNELS("softmax", Softmax), OF_FLOAT_KERNELS("softmax_grad", SoftmaxGrad)};
}

}  // namespace oneflow::cpu
