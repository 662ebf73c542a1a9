// Elementwise functions of one tensor, and the gradients of some. Outputs may lie in the inputs' memory.
#include "kernels/cpu/float_functions.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"

namespace oneflow::cpu {
namespace {

// y[i] = f(x[i]) for all elements, of type T; f takes and returns sixteen of them as floats, and is a lambda of its own
// type, so that it is inlined.
template <typename T, typename F>
const char* Map(const KernelArgs& args, F f) {
  const T* const x = args.in[0].as<const T>();
  T* const y = args.out[0].as<T>();
  ParallelFor(args.in[0].count, Grain(2 * sizeof(T)), [&](int64_t begin, int64_t end) {
    VecLoop(end - begin, [&](int64_t i, auto lanes) { Store(y + begin + i, f(Load(x + begin + i, lanes)), lanes); });
  });
  return nullptr;
}

template <typename T>
const char* Scale(const KernelArgs& args) {
  const F32s alpha = Splat(static_cast<float>(args.attrs->Double("alpha", 1)));
  return Map<T>(args, [=](F32s x) OF_INLINED { return alpha * x; });
}
template <typename T>
const char* AddScalar(const KernelArgs& args) {
  const F32s alpha = Splat(static_cast<float>(args.attrs->Double("alpha")));
  return Map<T>(args, [=](F32s x) OF_INLINED { return x + alpha; });
}
template <typename T>
const char* Neg(const KernelArgs& args) {
  return Map<T>(args, [](F32s x) OF_INLINED { return -x; });
}
#define OF_DEFINE_KERNEL(Name, ...)                                     \
  template <typename T>                                                 \
  const char* Name##Kernel(const KernelArgs& args) {                    \
    return Map<T>(args, [](F32s x) OF_INLINED { return Name##Of(x); }); \
  }
ONEFLOW_UNARY_FUNCTIONS(OF_DEFINE_KERNEL)
#undef OF_DEFINE_KERNEL

// in: dy, x.
template <typename T, typename F>
const char* MapGradient(const KernelArgs& args, F f) {
  const T* const dy = args.in[0].as<const T>();
  const T* const x = args.in[1].as<const T>();
  T* const dx = args.out[0].as<T>();
  ParallelFor(args.in[0].count, Grain(3 * sizeof(T)), [&](int64_t begin, int64_t end) {
    VecLoop(end - begin, [&](int64_t i, auto lanes) {
      i += begin;
      Store(dx + i, f(Load(dy + i, lanes), Load(x + i, lanes)), lanes);
    });
  });
  return nullptr;
}
#define OF_DEFINE_KERNEL(Name, ...)                                                          \
  template <typename T>                                                                      \
  const char* Name##Kernel(const KernelArgs& args) {                                         \
    return MapGradient<T>(args, [](F32s dy, F32s x) OF_INLINED { return Name##Of(dy, x); }); \
  }
ONEFLOW_GRADIENT_FUNCTIONS(OF_DEFINE_KERNEL)
#undef OF_DEFINE_KERNEL

template <typename A, typename B, typename T>
void AddReluGradOf(const KernelArgs& args) {
  const A* const a = args.in[0].as<const A>();
  const B* const b = args.in[1].as<const B>();
  const T* const y = args.in[2].as<const T>();
  T* const dx = args.out[0].as<T>();
  ParallelFor(args.in[2].count, Grain(sizeof(A) + sizeof(B) + 2 * sizeof(T)), [&](int64_t begin, int64_t end) {
    VecLoop(end - begin, [&](int64_t i, auto lanes) {
      i += begin;
      Store(dx + i, ReluGradOf(Load(a + i, lanes) + Load(b + i, lanes), Load(y + i, lanes)), lanes);
    });
  });
}

// relu_grad of a gradient of two addends, each of a type of its own; in: a, b, y.
template <typename A>
const char* AddReluGrad(const KernelArgs& args) {
  const char* error = nullptr;
  const char* const outer = ByFloat(args.in[1].dtype, [&]<typename B>() {
    error = ByFloat(args.in[2].dtype, [&]<typename T>() { AddReluGradOf<A, B, T>(args); });
  });
  return outer == nullptr ? error : outer;
}

}  // namespace

KernelList UnaryKernels() { return {OF_UNARY_KERNELS}; }

}  // namespace oneflow::cpu
