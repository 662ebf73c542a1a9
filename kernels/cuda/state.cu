// Kernels of constants and of state: constant, arange, literal, assign, step_mean, increment, accumulate.
#include <algorithm>

#include "kernels/cuda/copy.h"
#include "kernels/cuda/half.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/literal.h"

namespace oneflow::cuda {
namespace {

// The value is converted on the host, once.
template <typename T>
const char* Constant(const KernelArgs& args) {
  T* const x = args.out[0].as<T>();
  const T value = Narrow<T>(args.attrs->Double("value"));
  return ForEach(Stream(args), args.out[0].count, [x, value] __device__(int64_t i) { x[i] = value; });
}

template <typename T>
const char* Arange(const KernelArgs& args) {
  T* const x = args.out[0].as<T>();
  const double start = args.attrs->Double("start"), step = args.attrs->Double("step");
  const int64_t first = args.out[0].start[0];
  return ForEach(Stream(args), args.out[0].count,
                 [=] __device__(int64_t i) { x[i] = Narrow<T>(start + step * static_cast<double>(first + i)); });
}

// Numbers that one launch writes. They are parameters of the kernel, so that captured work has them too; at most 4 KiB.
constexpr int kLiterals = 256;
struct Literals {
  double of[kLiterals];
};

template <typename T>
const char* Literal(const KernelArgs& args) {
  for (int64_t begin = 0; begin < args.out[0].count; begin += kLiterals) {
    const int64_t count = std::min<int64_t>(kLiterals, args.out[0].count - begin);
    Literals values = {};
    for (int64_t i = 0; i < count; ++i) values.of[i] = LiteralOfShard(args, begin + i);
    T* const x = args.out[0].as<T>() + begin;
    const char* const error =
        ForEach(Stream(args), count, [=] __device__(int64_t i) { x[i] = Narrow<T>(values.of[i]); });
    if (error != nullptr) return error;
  }
  return nullptr;
}

// in: v (overwritten), x.
const char* Assign(const KernelArgs& args) {
  return CopyRun(Stream(args), args.in[0].dtype, args.in[1].count, args.in[1].data, args.in[0].data);
}

// in: v (overwritten), scale[] if the step may be skipped.
const char* Increment(const KernelArgs& args) {
  int64_t* const v = args.in[0].as<int64_t>();
  const float* const scale = args.in.size() > 1 ? args.in[1].as<const float>() : nullptr;
  return ForEach(Stream(args), args.in[0].count, [=] __device__(int64_t i) {
    if (scale == nullptr || !isnan(*scale)) ++v[i];
  });
}

// in: total[], weight[].
const char* StepMean(const KernelArgs& args) {
  const float *const total = args.in[0].as<const float>(), *const weight = args.in[1].as<const float>();
  float* const mean = args.out[0].as<float>();
  return ForEach(Stream(args), 1, [=] __device__(int64_t) { *mean = *weight == 0 ? 0.0f : *total / *weight; });
}

// The output keeps its contents between the micro-batches of a step; the first one overwrites it.
const char* Accumulate(const KernelArgs& args) {
  return CopyRun(Stream(args), args.in[0].dtype, args.in[0].count, args.in[0].data, args.out[0].data,
                 args.micro_batch > 0 ? Combine::kSum : Combine::kOverwrite);
}

}  // namespace

KernelList StateKernels() { return {OF_STATE_KERNELS}; }

}  // namespace oneflow::cuda
