// Comparisons and logical functions of two tensors, and where, with NumPy's broadcasting.
#include "absl/functional/function_ref.h"
#include "kernels/cpu/broadcast.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/kernels.h"
#include "kernels/kernel_lists.h"
#include "kernels/where_operands.h"
#include "oneflow_core/elementwise_functions.h"

namespace oneflow::cpu {
namespace {

template <typename T, typename F>
const char* Compare(const KernelArgs& args, F f) {
  const T* const all_a = args.in[0].as<const T>();
  const T* const all_b = args.in[1].as<const T>();
  bool* const all_y = args.out[0].as<bool>();
  const auto compare = [&](const BroadcastRun<2>& run) {
    const T *const a = all_a + run.from[0], *const b = all_b + run.from[1];
    bool* const y = all_y + run.to;
    const auto [a_stride, b_stride] = run.stride;
    if (a_stride == 1 && b_stride == 1) {
      for (int64_t i = 0; i < run.count; ++i) y[i] = f(Value(a[i]), Value(b[i]));
    } else {
      for (int64_t i = 0; i < run.count; ++i) y[i] = f(Value(a[i * a_stride]), Value(b[i * b_stride]));
    }
  };
  const absl::FunctionRef<void(const BroadcastRun<2>&)> of_run = compare;  // or all around it is compiled for each f
  ForRuns(BroadcastLoop(args.in[0], args.in[1], args.out[0]), 2 * sizeof(T) + 1, of_run);
  return nullptr;
}

#define OF_DEFINE_KERNEL(Name, op, f)                                     \
  template <typename T>                                                   \
  const char* Name##Kernel(const KernelArgs& args) {                      \
    return Compare<T>(args, [](auto a, auto b) OF_INLINED { return f; }); \
  }
ONEFLOW_COMPARISONS(OF_DEFINE_KERNEL)
ONEFLOW_LOGICAL_FUNCTIONS(OF_DEFINE_KERNEL)
#undef OF_DEFINE_KERNEL

template <typename T>
const char* Where(const KernelArgs& args) {
  const WhereOperands<T> x(args);
  const auto choose = [&](const BroadcastRun<3>& run) {
    const auto [a_stride, b_stride, condition_stride] = run.stride;
    for (int64_t i = 0; i < run.count; ++i) {
      x.Choose(run.from[0] + i * a_stride, run.from[1] + i * b_stride, run.from[2] + i * condition_stride, run.to + i);
    }
  };
  ForRuns(BroadcastLoop<3>({&args.in[0], &args.in[1], &args.in[2]}, args.out[0]), 3 * sizeof(T) + 1, choose);
  return nullptr;
}

}  // namespace

KernelList CompareKernels() { return {OF_COMPARE_KERNELS}; }

}  // namespace oneflow::cpu
