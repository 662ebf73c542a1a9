// elementwise: a few elementwise ops in one pass over memory. A thread takes four neighbours of every operand, makes
// the program's steps on them, and writes what is given when all is read, so that an output may lie in an input's
// memory. Which op a step is all threads of a kernel agree on, so that none waits for another; values between steps are
// in memory that is a thread's own, which the first-level cache holds.
#include "kernels/cuda/float_functions.cuh"
#include "kernels/cuda/half.cuh"
#include "kernels/elementwise_steps.h"

namespace oneflow::cuda {
namespace {

__device__ float RoundedAs(DType dtype, float x) {
  if (dtype == DType::kBFloat16) return Widen(Narrow<BFloat16>(x));
  if (dtype == DType::kFloat16) return Widen(Narrow<Float16>(x));
  return x;
}

// The op of a step on kLanes elements.
template <int kLanes, typename F>
__device__ void Each(const ElementwiseStep& step, float (*slots)[kLanes], F f) {
  for (int k = 0; k < kLanes; ++k) {
    slots[step.out][k] = RoundedAs(step.dtype, f(slots[step.a][k], slots[step.b][k]));
  }
}

template <int kLanes>
__device__ void DoStep(const ElementwiseStep& step, float (*slots)[kLanes]) {
  const float alpha = step.alpha;
  switch (step.op) {
    case StepOp::kCast:
      return Each<kLanes>(step, slots, [](float a, float) { return a; });
    case StepOp::kScale:
      return Each<kLanes>(step, slots, [alpha](float a, float) { return alpha * a; });
    case StepOp::kAddScalar:
      return Each<kLanes>(step, slots, [alpha](float a, float) { return a + alpha; });
    case StepOp::kNeg:
      return Each<kLanes>(step, slots, [](float a, float) { return -a; });
#define OF_STEP(Name, ...) \
  case StepOp::k##Name:    \
    return Each<kLanes>(step, slots, [](float x, float) { return Name##Of(x); });
      ONEFLOW_UNARY_FUNCTIONS(OF_STEP)
#undef OF_STEP
#define OF_STEP(Name, ...) \
  case StepOp::k##Name:    \
    return Each<kLanes>(step, slots, [](float a, float b) { return Name##Of(a, b); });
      ONEFLOW_GRADIENT_FUNCTIONS(OF_STEP)
      ONEFLOW_BINARY_FUNCTIONS(OF_STEP)
#undef OF_STEP
  }
}

// kLanes elements that are read or written at once.
template <typename T, int kLanes>
struct alignas(kLanes * sizeof(T)) Some {
  T of[kLanes];
};

template <typename T, int kLanes>
__device__ void ReadAs(const ElementwiseOperand& x, int64_t at, float* to) {
  const T* const from = static_cast<const T*>(x.data);
  if (x.is_scalar) {
    for (int k = 0; k < kLanes; ++k) to[k] = Widen(from[0]);
    return;
  }
  const auto some = *reinterpret_cast<const Some<T, kLanes>*>(from + at);
  for (int k = 0; k < kLanes; ++k) to[k] = Widen(some.of[k]);
}
template <typename T, int kLanes>
__device__ void WriteAs(const ElementwiseOperand& y, int64_t at, const float* from) {
  Some<T, kLanes> some;
  for (int k = 0; k < kLanes; ++k) some.of[k] = Narrow<T>(from[k]);
  *reinterpret_cast<Some<T, kLanes>*>(static_cast<T*>(y.data) + at) = some;
}

template <int kLanes>
__device__ void ReadSome(const ElementwiseOperand& x, int64_t at, float* to) {
  if (x.dtype == DType::kBFloat16) return ReadAs<BFloat16, kLanes>(x, at, to);
  if (x.dtype == DType::kFloat16) return ReadAs<Float16, kLanes>(x, at, to);
  return ReadAs<float, kLanes>(x, at, to);
}
template <int kLanes>
__device__ void WriteSome(const ElementwiseOperand& y, int64_t at, const float* from) {
  if (y.dtype == DType::kBFloat16) return WriteAs<BFloat16, kLanes>(y, at, from);
  if (y.dtype == DType::kFloat16) return WriteAs<Float16, kLanes>(y, at, from);
  return WriteAs<float, kLanes>(y, at, from);
}

// Elements `at` to at + kLanes of all operands.
template <int kLanes>
__device__ void ComputeSteps(const ElementwiseSteps& program, int64_t at) {
  float slots[kMostSlots][kLanes];
#pragma unroll 1
  for (int i = 0; i < program.inputs; ++i) ReadSome<kLanes>(program.operands[i], at, slots[i]);
#pragma unroll 1
  for (int i = 0; i < program.count; ++i) DoStep<kLanes>(program.steps[i], slots);
#pragma unroll 1
  for (int i = 0; i < program.outputs; ++i) {
    const int slot = program.inputs + i;
    WriteSome<kLanes>(program.operands[slot], at, slots[slot]);
  }
}

__global__ void ElementwiseKernel(int64_t n, int64_t fours, ElementwiseSteps program) {
#pragma unroll 1
  for (int64_t i = FirstIndex(); i < fours; i += IndexStride()) ComputeSteps<4>(program, 4 * i);
#pragma unroll 1
  for (int64_t i = 4 * fours + FirstIndex(); i < n; i += IndexStride()) ComputeSteps<1>(program, i);
}

std::shared_ptr<void> PrepareSteps(const KernelArgs& args) { return MakeElementwiseSteps(args); }

const char* Elementwise(const KernelArgs& args) {
  const int64_t n = args.out[0].count;
  if (n == 0) return nullptr;
  ElementwiseSteps program = *static_cast<const ElementwiseSteps*>(args.state);
  bool aligned = true;
  for (int i = 0; i < program.inputs + program.outputs; ++i) {
    ElementwiseOperand& operand = program.operands[i];
    operand.data = i < program.inputs ? args.in[i].data : args.out[i - program.inputs].data;
    const size_t four = 4 * SizeOf(operand.dtype);
    aligned = aligned && (operand.is_scalar || reinterpret_cast<uintptr_t>(operand.data) % four == 0);
  }
  return Launch({Stream(args), Blocks(n, 4 * kThreads)}, ElementwiseKernel, n, aligned ? n / 4 : 0, program);
}

}  // namespace

KernelList ElementwiseKernels() { return {OF_FLOAT_KERNEL("elementwise", Elementwise, nullptr, PrepareSteps)}; }

}  // namespace oneflow::cuda
