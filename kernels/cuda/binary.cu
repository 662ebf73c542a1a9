// add, sub, mul, div, maximum, minimum and heaviside with NumPy's broadcasting, and add_n. Dimensions that neither
// operand broadcasts differently are merged; what is then one run (same shape, or a scalar) goes four elements at a
// time.
#include "kernels/cuda/launch.cuh"
#include "kernels/loops.h"

namespace oneflow::cuda {
namespace {

// The dimensions of the loop, as a kernel's parameter: outermost first; a stride of 0 repeats the operand.
struct Loop {
  int rank = 0;
  int64_t extent[kMaxRank], a[kMaxRank], b[kMaxRank];
};

// False if there are more than kMaxRank.
bool MakeLoop(const TensorArg& a, const TensorArg& b, const TensorArg& c, Loop* loop) {
  const std::vector<LoopDim<2>> dims = BroadcastLoop(a, b, c);
  if (dims.size() > kMaxRank) return false;
  for (const LoopDim<2>& dim : dims) {
    loop->extent[loop->rank] = dim.extent;
    loop->a[loop->rank] = dim.stride[0];
    loop->b[loop->rank++] = dim.stride[1];
  }
  return true;
}

// Index is 32 bits wide where that suffices: a 64-bit division costs several times as much.
template <typename Index, typename F>
__global__ void BroadcastKernel(Loop loop, Index n, const float* a, const float* b, float* c, F f) {
  for (int64_t i = FirstIndex(); i < n; i += IndexStride()) {
    Index rest = static_cast<Index>(i);
    int64_t at_a = 0, at_b = 0;
    for (int d = loop.rank; d-- > 0;) {
      const Index extent = static_cast<Index>(loop.extent[d]);
      const Index at = rest % extent;
      rest /= extent;
      at_a += at * loop.a[d];
      at_b += at * loop.b[d];
    }
    c[i] = f(a[at_a], b[at_b]);
  }
}

template <typename F>
const char* Broadcast(const KernelArgs& args, F f) {
  const float* const a = args.in[0].as<const float>();
  const float* const b = args.in[1].as<const float>();
  float* const c = args.out[0].as<float>();
  const int64_t n = args.out[0].count;
  if (n == 0) return nullptr;
  Loop loop;
  if (!MakeLoop(args.in[0], args.in[1], args.out[0], &loop)) return "broadcasting in more than 8 merged dimensions";
  if (loop.rank == 0 || (loop.rank == 1 && loop.a[0] == 1 && loop.b[0] == 1)) return Map(Stream(args), n, f, c, a, b);
  if (n <= INT32_MAX) {
    return Launch({Stream(args), Blocks(n)}, BroadcastKernel<uint32_t, F>, loop, static_cast<uint32_t>(n), a, b, c, f);
  }
  return Launch({Stream(args), Blocks(n)}, BroadcastKernel<int64_t, F>, loop, n, a, b, c, f);
}

const char* Add(const KernelArgs& args) {
  return Broadcast(args, [] __device__(float a, float b) { return a + b; });
}
const char* Sub(const KernelArgs& args) {
  return Broadcast(args, [] __device__(float a, float b) { return a - b; });
}
const char* Mul(const KernelArgs& args) {
  return Broadcast(args, [] __device__(float a, float b) { return a * b; });
}
const char* Div(const KernelArgs& args) {
  return Broadcast(args, [] __device__(float a, float b) { return a / b; });
}

// Written so that a NaN in either operand comes out.
const char* Maximum(const KernelArgs& args) {
  return Broadcast(args, [] __device__(float a, float b) { return a > b || a != a ? a : b; });
}
const char* Minimum(const KernelArgs& args) {
  return Broadcast(args, [] __device__(float a, float b) { return a < b || a != a ? a : b; });
}
// 1 beside a NaN, which is neither less nor equal.
const char* Heaviside(const KernelArgs& args) {
  return Broadcast(args, [] __device__(float a, float b) { return a < b ? 0.0f : a == b ? 0.5f : 1.0f; });
}

// Operands that one launch adds: pointers are kernel parameters.
constexpr int kOperands = 16;
struct Operands {
  int count = 0;
  const float* x[kOperands];
};

__global__ void AddNKernel(int64_t n, Operands operands, float* y) {
  for (int64_t i = FirstIndex(); i < n; i += IndexStride()) {
    float sum = operands.x[0][i];
    for (int operand = 1; operand < operands.count; ++operand) sum += operands.x[operand][i];
    y[i] = sum;
  }
}

// The operands are added in their order; those beyond the first 16 are added to what `y` holds by then, so the output
// may take the memory of one of the first 16 only.
const char* AddN(const KernelArgs& args) {
  const int64_t n = args.out[0].count;
  if (n == 0) return nullptr;
  for (size_t next = 0; next < args.in.size();) {
    Operands operands;
    if (next > 0) operands.x[operands.count++] = args.out[0].as<const float>();
    while (operands.count < kOperands && next < args.in.size()) {
      operands.x[operands.count++] = args.in[next++].as<const float>();
    }
    float* const y = args.out[0].as<float>();
    if (const char* error = Launch({Stream(args), Blocks(n)}, AddNKernel, n, operands, y)) return error;
  }
  return nullptr;
}

}  // namespace

KernelList BinaryKernels() {
  constexpr DType kF32 = DType::kFloat32;
  return {{"add", kF32, Add},
          {"sub", kF32, Sub},
          {"mul", kF32, Mul},
          {"div", kF32, Div},
          {"maximum", kF32, Maximum},
          {"minimum", kF32, Minimum},
          {"heaviside", kF32, Heaviside},
          {"add_n", kF32, AddN}};
}

}  // namespace oneflow::cuda
