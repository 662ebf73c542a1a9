// add, sub, mul, div, maximum, minimum and heaviside with NumPy's broadcasting, and add_n. Dimensions that neither
// operand broadcasts differently are merged, so that the common cases (same shape, scalar, a row added to a matrix) are
// long runs along the inner dimension.
#include "kernels/cpu/broadcast.h"
#include "kernels/cpu/float_functions.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"

namespace oneflow::cpu {
namespace {

template <typename T, typename F>
void Run(const T* a, bool a_repeats, const T* b, bool b_repeats, T* c, int64_t n, F f) {
  if (a_repeats) {
    const F32s x = Splat(ToFloat(*a));
    VecLoop(n, [&](int64_t i, auto lanes) { Store(c + i, f(x, Load(b + i, lanes)), lanes); });
  } else if (b_repeats) {
    const F32s y = Splat(ToFloat(*b));
    VecLoop(n, [&](int64_t i, auto lanes) { Store(c + i, f(Load(a + i, lanes), y), lanes); });
  } else {
    VecLoop(n, [&](int64_t i, auto lanes) { Store(c + i, f(Load(a + i, lanes), Load(b + i, lanes)), lanes); });
  }
}

template <typename T, typename F>
const char* Broadcast(const KernelArgs& args, F f) {
  const T* const a = args.in[0].as<const T>();
  const T* const b = args.in[1].as<const T>();
  T* const c = args.out[0].as<T>();
  ForRuns(BroadcastLoop(args.in[0], args.in[1], args.out[0]), 3 * sizeof(T),
          [&](const BroadcastRun<2>& run) OF_INLINED {
            Run(a + run.from[0], run.stride[0] == 0, b + run.from[1], run.stride[1] == 0, c + run.to, run.count, f);
          });
  return nullptr;
}

#define OF_DEFINE_KERNEL(Name, ...)                                                      \
  template <typename T>                                                                  \
  const char* Name##Kernel(const KernelArgs& args) {                                     \
    return Broadcast<T>(args, [](F32s a, F32s b) OF_INLINED { return Name##Of(a, b); }); \
  }
ONEFLOW_BINARY_FUNCTIONS(OF_DEFINE_KERNEL)
#undef OF_DEFINE_KERNEL

// The operands are added in their order, in one pass, and the sum is rounded to what the output holds.
template <typename From, typename To>
void AddAll(const KernelArgs& args) {
  To* const y = args.out[0].as<To>();
  ParallelFor(args.out[0].count, Grain(args.in.size() * sizeof(From) + sizeof(To)), [&](int64_t begin, int64_t end) {
    VecLoop(end - begin, [&](int64_t i, auto lanes) {
      i += begin;
      F32s sum = Load(args.in[0].as<const From>() + i, lanes);
      for (size_t operand = 1; operand < args.in.size(); ++operand) {
        sum += Load(args.in[operand].as<const From>() + i, lanes);
      }
      Store(y + i, sum, lanes);
    });
  });
}

template <typename T>
const char* AddN(const KernelArgs& args) {
  return ByFloat(args.out[0].dtype, [&]<typename To>() { AddAll<T, To>(args); });
}

}  // namespace

KernelList BinaryKernels() {
#define OF_LIST(Name, op, ...) OF_FLOAT_KERNELS(#op, Name##Kernel),
  return {ONEFLOW_BINARY_FUNCTIONS(OF_LIST) OF_FLOAT_KERNELS("add_n", AddN)};
#undef OF_LIST
}

}  // namespace oneflow::cpu
