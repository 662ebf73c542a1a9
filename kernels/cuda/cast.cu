// Conversion between element types: floats to integers truncate, anything to bool asks whether it is not zero, 16-bit
// floats round to nearest even and go through float.
#include <type_traits>

#include "kernels/cuda/cast.h"
#include "kernels/cuda/half.cuh"
#include "kernels/cuda/launch.cuh"
#include "oneflow_core/dtype_switch.h"

namespace oneflow::cuda {
namespace {

template <typename From, typename To>
__global__ void CastKernel(int64_t n, const From* x, To* y) {
#pragma unroll 1
  for (int64_t i = FirstIndex(); i < n; i += IndexStride()) y[i] = Narrow<To>(Widen(x[i]));
}

template <typename T>
inline constexpr bool kIsFloat = kIsHalf<T> || std::is_same_v<T, float>;

template <typename From, typename To>
const char* Convert(const TensorArg& x, const TensorArg& y, cudaStream_t stream) {
  if (x.count == 0) return nullptr;
  if constexpr (kIsFloat<From> && kIsFloat<To>) {
    return MapFloats(
        stream, x.count, [] __device__(float v) { return v; }, y.as<To>(), x.as<const From>());
  }
  return Launch({stream, Blocks(x.count)}, CastKernel<From, To>, x.count, x.as<const From>(), y.as<To>());
}

template <typename From>
const char* ConvertTo(const TensorArg& x, const TensorArg& y, cudaStream_t stream) {
  return ByDType<BFloat16, Float16>(y.dtype, [&]<typename To>() { return Convert<From, To>(x, y, stream); });
}

template <typename From>
const char* Cast(const KernelArgs& args) {
  return ConvertTo<From>(args.in[0], args.out[0], Stream(args));
}

}  // namespace

const char* LaunchCast(const TensorArg& x, const TensorArg& y, cudaStream_t stream) {
  return ByFloat(x.dtype, [&]<typename From>() { return ConvertTo<From>(x, y, stream); });
}

KernelList CastKernels() {
  return {{"cast", DType::kFloat32, Cast<float>},   {"cast", DType::kBFloat16, Cast<BFloat16>},
          {"cast", DType::kFloat16, Cast<Float16>}, {"cast", DType::kInt32, Cast<int32_t>},
          {"cast", DType::kInt64, Cast<int64_t>},   {"cast", DType::kUInt8, Cast<uint8_t>},
          {"cast", DType::kBool, Cast<bool>}};
}

}  // namespace oneflow::cuda
