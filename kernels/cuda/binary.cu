// add, sub, mul, div, maximum, minimum and heaviside with NumPy's broadcasting, and add_n. Dimensions that neither
// operand broadcasts differently are merged; what is then one run (same shape, or a scalar) goes four elements at a
// time.
#include "kernels/cuda/loops.cuh"

namespace oneflow::cuda {
namespace {

template <typename F>
const char* Broadcast(const KernelArgs& args, F f) {
  const float* const a = args.in[0].as<const float>();
  const float* const b = args.in[1].as<const float>();
  float* const c = args.out[0].as<float>();
  const int64_t n = args.out[0].count;
  const std::vector<LoopDim<2>> dims = BroadcastLoop(args.in[0], args.in[1], args.out[0]);
  if (dims.size() > kMaxRank) return "broadcasting in more than 8 merged dimensions";
  const bool is_run = dims.empty() || (dims.size() == 1 && dims[0].stride[0] == 1 && dims[0].stride[1] == 1);
  if (is_run) return Map(Stream(args), n, f, c, a, b);
  return ForEach(Stream(args), dims,
                 [=] __device__(int64_t i, const Offsets<2>& at) { c[i] = f(a[at.of[0]], b[at.of[1]]); });
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
#pragma unroll 1
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
  if (args.out[0].dtype != DType::kFloat32) return "add_n: no sum of floats in another type";
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
