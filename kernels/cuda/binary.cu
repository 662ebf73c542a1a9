// add, sub, mul, div, maximum, minimum and heaviside with NumPy's broadcasting, and add_n. Dimensions that neither
// operand broadcasts differently are merged; what is then one run (same shape, or a scalar) goes four elements at a
// time.
#include "kernels/cuda/float_functions.cuh"
#include "kernels/cuda/half.cuh"
#include "kernels/cuda/loops.cuh"

namespace oneflow::cuda {
namespace {

template <typename T, typename F>
const char* Broadcast(const KernelArgs& args, F f) {
  const T* const a = args.in[0].as<const T>();
  const T* const b = args.in[1].as<const T>();
  T* const c = args.out[0].as<T>();
  const int64_t n = args.out[0].count;
  const std::vector<LoopDim<2>> dims = BroadcastLoop(args.in[0], args.in[1], args.out[0]);
  if (dims.size() > kMaxRank) return "broadcasting in more than 8 merged dimensions";
  const bool is_run = dims.empty() || (dims.size() == 1 && dims[0].stride[0] == 1 && dims[0].stride[1] == 1);
  if (is_run) return MapFloats(Stream(args), n, f, c, a, b);
  return ForEach(Stream(args), dims, [=] __device__(int64_t i, const Offsets<2>& at) {
    c[i] = Narrow<T>(f(Widen(a[at.of[0]]), Widen(b[at.of[1]])));
  });
}

#define OF_DEFINE_KERNEL(Name, ...)                                                        \
  template <typename T>                                                                    \
  const char* Name##Kernel(const KernelArgs& args) {                                       \
    return Broadcast<T>(args, [] __device__(float a, float b) { return Name##Of(a, b); }); \
  }
ONEFLOW_BINARY_FUNCTIONS(OF_DEFINE_KERNEL)
#undef OF_DEFINE_KERNEL

// Operands that one launch adds: pointers are kernel parameters.
constexpr int kOperands = 16;
template <typename T>
struct Operands {
  int count = 0;
  const T* x[kOperands];
};

// `before`: the sum of earlier operands, or null.
template <typename T, typename To>
__global__ void AddNKernel(int64_t n, const To* before, Operands<T> operands, To* y) {
#pragma unroll 1
  for (int64_t i = FirstIndex(); i < n; i += IndexStride()) {
    float sum = before != nullptr ? Widen(before[i]) + Widen(operands.x[0][i]) : Widen(operands.x[0][i]);
    for (int operand = 1; operand < operands.count; ++operand) sum += Widen(operands.x[operand][i]);
    y[i] = Narrow<To>(sum);
  }
}

// The operands are added in their order; those beyond the first 16 are added to what `y` holds by then, so the output
// may take the memory of one of the first 16 only.
template <typename T, typename To>
const char* AddAll(const KernelArgs& args) {
  const int64_t n = args.out[0].count;
  if (n == 0) return nullptr;
  To* const y = args.out[0].as<To>();
  for (size_t next = 0; next < args.in.size();) {
    const To* const before = next > 0 ? y : nullptr;
    Operands<T> operands;
    while (operands.count < kOperands && next < args.in.size()) {
      operands.x[operands.count++] = args.in[next++].as<const T>();
    }
    if (const char* error = Launch({Stream(args), Blocks(n)}, AddNKernel<T, To>, n, before, operands, y)) return error;
  }
  return nullptr;
}

template <typename T>
const char* AddN(const KernelArgs& args) {
  return ByFloat(args.out[0].dtype, [&]<typename To>() { return AddAll<T, To>(args); });
}

}  // namespace

KernelList BinaryKernels() {
#define OF_LIST(Name, op, ...) OF_FLOAT_KERNELS(#op, Name##Kernel),
  return {ONEFLOW_BINARY_FUNCTIONS(OF_LIST) OF_FLOAT_KERNELS("add_n", AddN)};
#undef OF_LIST
}

}  // namespace oneflow::cuda
