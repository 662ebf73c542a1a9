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

KernelList StateKernels() {
  KernelList kernels = {
      {"constant", DType::kFloat32, Constant<float>},   {"constant", DType::kBFloat16, Constant<BFloat16>},
      {"constant", DType::kFloat16, Constant<Float16>}, {"constant", DType::kInt32, Constant<int32_t>},
      {"constant", DType::kInt64, Constant<int64_t>},   {"constant", DType::kUInt8, Constant<uint8_t>},
      {"constant", DType::kBool, Constant<bool>},       {"increment", DType::kInt64, Increment},
      {"accumulate", DType::kFloat32, Accumulate},      {"accumulate", DType::kInt32, Accumulate},
      {"accumulate", DType::kInt64, Accumulate}};
  for (const DType dtype : kAllDTypes) kernels.push_back({"assign", dtype, Assign});
  return kernels;
}

}  // namespace oneflow::cuda
