// Conversion between element types: floats to integers truncate, anything to bool asks whether it is not zero, 16-bit
// floats round to nearest even and go through float.
#include "kernels/cuda/half.cuh"
#include "kernels/cuda/launch.cuh"

namespace oneflow::cuda {
namespace {

template <typename From, typename To>
__global__ void CastKernel(int64_t n, const From* x, To* y) {
#pragma unroll 1
  for (int64_t i = FirstIndex(); i < n; i += IndexStride()) y[i] = Narrow<To>(Widen(x[i]));
}

template <typename From, typename To>
const char* Convert(const KernelArgs& args) {
  const int64_t n = args.in[0].count;
  if (n == 0) return nullptr;
  return Launch({Stream(args), Blocks(n)}, CastKernel<From, To>, n, args.in[0].as<const From>(), args.out[0].as<To>());
}

template <typename From>
const char* Cast(const KernelArgs& args) {
  switch (args.out[0].dtype) {
    case DType::kFloat32:
      return Convert<From, float>(args);
    case DType::kBFloat16:
      return Convert<From, BFloat16>(args);
    case DType::kFloat16:
      return Convert<From, Float16>(args);
    case DType::kInt32:
      return Convert<From, int32_t>(args);
    case DType::kInt64:
      return Convert<From, int64_t>(args);
    case DType::kUInt8:
      return Convert<From, uint8_t>(args);
    case DType::kBool:
      return Convert<From, bool>(args);
  }
  return "cast: unknown output dtype";
}

}  // namespace

KernelList CastKernels() {
  return {{"cast", DType::kFloat32, Cast<float>},   {"cast", DType::kBFloat16, Cast<BFloat16>},
          {"cast", DType::kFloat16, Cast<Float16>}, {"cast", DType::kInt32, Cast<int32_t>},
          {"cast", DType::kInt64, Cast<int64_t>},   {"cast", DType::kUInt8, Cast<uint8_t>},
          {"cast", DType::kBool, Cast<bool>}};
}

}  // namespace oneflow::cuda
