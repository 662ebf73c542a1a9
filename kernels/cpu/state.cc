// Kernels of constants and of state: constant, arange, literal, assign, step_mean, increment, accumulate.
#include <cmath>
#include <cstring>

#include "kernels/copy.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/literal.h"

namespace oneflow::cpu {
namespace {

template <typename T>
const char* Constant(const KernelArgs& args) {
  T* const x = args.out[0].as<T>();
  const T value = As<T>(args.attrs->Double("value"));
  ParallelFor(args.out[0].count, Grain(sizeof(T)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) x[i] = value;
  });
  return nullptr;
}

template <typename T>
const char* Arange(const KernelArgs& args) {
  const TensorArg& x = args.out[0];
  const double start = args.attrs->Double("start"), step = args.attrs->Double("step");
  for (int64_t i = 0; i < x.count; ++i) {
    x.as<T>()[i] = As<T>(start + step * static_cast<double>(x.start[0] + i));
  }
  return nullptr;
}

template <typename T>
const char* Literal(const KernelArgs& args) {
  for (int64_t i = 0; i < args.out[0].count; ++i) args.out[0].as<T>()[i] = As<T>(LiteralOfShard(args, i));
  return nullptr;
}

// in: v (overwritten), x.
const char* Assign(const KernelArgs& args) {
  const int64_t extent[] = {args.in[1].count}, stride[] = {1};
  return CopyRegion({args.in[0].dtype, extent, args.in[1].data, stride, args.in[0].data, stride});
}

// in: v (overwritten), scale[] if the step may be skipped.
const char* Increment(const KernelArgs& args) {
  if (args.in.size() > 1 && std::isnan(args.in[1].as<const float>()[0])) return nullptr;
  int64_t* const v = args.in[0].as<int64_t>();
  for (int64_t i = 0; i < args.in[0].count; ++i) ++v[i];
  return nullptr;
}

// in: total[], weight[].
const char* StepMean(const KernelArgs& args) {
  const float total = args.in[0].as<const float>()[0], weight = args.in[1].as<const float>()[0];
  args.out[0].as<float>()[0] = weight == 0 ? 0 : total / weight;
  return nullptr;
}

// The output keeps its contents between the micro-batches of a step; the first one overwrites it.
const char* Accumulate(const KernelArgs& args) {
  const int64_t extent[] = {args.in[0].count}, stride[] = {1};
  return CopyRegion(
      {args.in[0].dtype, extent, args.in[0].data, stride, args.out[0].data, stride, args.micro_batch > 0});
}

}  // namespace

KernelList StateKernels() { return {OF_STATE_KERNELS}; }

}  // namespace oneflow::cpu
