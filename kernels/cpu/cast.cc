// Conversion between element types: floats to integers truncate, anything to bool asks whether it is not zero, 16-bit
// floats round to nearest even and go through float.
#include "kernels/cpu/half.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "oneflow_core/dtype_switch.h"

namespace oneflow::cpu {
namespace {

template <typename From, typename To>
inline void Assign(From x, To* y) {
  if constexpr (std::is_same_v<To, BFloat16> || std::is_same_v<To, Float16>) {
    FromFloat(static_cast<float>(x), y);
  } else if constexpr (std::is_same_v<To, bool>) {
    *y = x != 0;
  } else {
    *y = static_cast<To>(x);
  }
}

template <typename T>
constexpr bool kIsFloat = std::is_same_v<T, float> || Half<T>;

template <typename From, typename To>
const char* Between(const KernelArgs& args) {
  const From* const x = args.in[0].as<const From>();
  To* const y = args.out[0].as<To>();
  if constexpr (kIsFloat<From> && kIsFloat<To>) {
    Convert(x, y, args.in[0].count);
  } else {
    ParallelFor(args.in[0].count, Grain(sizeof(From) + sizeof(To)), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) Assign(Value(x[i]), y + i);
    });
  }
  return nullptr;
}

template <typename From>
const char* Cast(const KernelArgs& args) {
  return ByDType<BFloat16, Float16>(args.out[0].dtype, [&]<typename To>() { return Between<From, To>(args); });
}

}  // namespace

KernelList CastKernels() {
  return {{"cast", DType::kFloat32, Cast<float>},   {"cast", DType::kBFloat16, Cast<BFloat16>},
          {"cast", DType::kFloat16, Cast<Float16>}, {"cast", DType::kInt32, Cast<int32_t>},
          {"cast", DType::kInt64, Cast<int64_t>},   {"cast", DType::kUInt8, Cast<uint8_t>},
          {"cast", DType::kBool, Cast<bool>}};
}

}  // namespace oneflow::cpu
