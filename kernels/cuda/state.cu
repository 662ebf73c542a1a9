// Kernels of constants and of state: constant, assign, increment, accumulate.
#include "kernels/cuda/copy.h"
#include "kernels/cuda/half.cuh"
#include "kernels/cuda/launch.cuh"

namespace oneflow::cuda {
namespace {

// The value is converted on the host, once.
template <typename T>
const char* Constant(const KernelArgs& args) {
  T* const x = args.out[0].as<T>();
  const T value = Narrow<T>(args.attrs->Double("value"));
  return ForEach(Stream(args), args.out[0].count, [x, value] __device__(int64_t i) { x[i] = value; });
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

// The output keeps its contents between the micro-batches of a step; the first one overwrites it.
const char* Accumulate(const KernelArgs& args) {
  return CopyRun(Stream(args), args.in[0].dtype, args.in[0].count, args.in[0].data, args.out[0].data,
                 args.micro_batch > 0 ? Combine::kSum : Combine::kOverwrite);
}

}  // namespace

KernelList StateKernels() { return {OF_STATE_KERNELS}; }

}  // namespace oneflow::cuda
