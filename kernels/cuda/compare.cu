// Comparisons and logical functions of two tensors, and where, with NumPy's broadcasting.
#include "kernels/cuda/half.cuh"
#include "kernels/cuda/loops.cuh"
#include "kernels/kernel_lists.h"
#include "kernels/where_operands.h"
#include "oneflow_core/elementwise_functions.h"

namespace oneflow::cuda {
namespace {

constexpr const char* kTooManyDims = "broadcasting in more than 8 merged dimensions";

template <typename T, typename F>
const char* Compare(const KernelArgs& args, F f) {
  const T* const a = args.in[0].as<const T>();
  const T* const b = args.in[1].as<const T>();
  bool* const y = args.out[0].as<bool>();
  const std::vector<LoopDim<2>> dims = BroadcastLoop(args.in[0], args.in[1], args.out[0]);
  if (dims.size() > kMaxRank) return kTooManyDims;
  return ForEach(Stream(args), dims,
                 [=] __device__(int64_t i, const Offsets<2>& at) { y[i] = f(Widen(a[at.of[0]]), Widen(b[at.of[1]])); });
}

// Functors, as nvcc takes no generic lambda on the device.
#define OF_DEFINE_KERNEL(Name, op, f)                \
  struct Name##Function {                            \
    template <typename T>                            \
    __device__ bool operator()(T a, T b) const {     \
      return f;                                      \
    }                                                \
  };                                                 \
  template <typename T>                              \
  const char* Name##Kernel(const KernelArgs& args) { \
    return Compare<T>(args, Name##Function());       \
  }
ONEFLOW_COMPARISONS(OF_DEFINE_KERNEL)
ONEFLOW_LOGICAL_FUNCTIONS(OF_DEFINE_KERNEL)
#undef OF_DEFINE_KERNEL

template <typename T>
const char* Where(const KernelArgs& args) {
  const auto dims = BroadcastLoop<3>({&args.in[0], &args.in[1], &args.in[2]}, args.out[0]);
  if (dims.size() > kMaxRank) return kTooManyDims;
  const WhereOperands<T> x(args);
  return ForEach(Stream(args), dims,
                 [=] __device__(int64_t i, const Offsets<3>& at) { x.Choose(at.of[0], at.of[1], at.of[2], i); });
}

}  // namespace

KernelList CompareKernels() { return {OF_COMPARE_KERNELS}; }

}  // namespace oneflow::cuda
