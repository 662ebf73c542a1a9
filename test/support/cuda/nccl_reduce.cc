#include "test/support/cuda/nccl_reduce.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace oneflow::software_cuda {
namespace {

// What elements are computed with. Unsigned: sums of integers wrap around.
inline float Load(float x) { return x; }
inline float Load(__half x) { return __half2float(x); }
inline float Load(__nv_bfloat16 x) { return __bfloat162float(x); }
template <typename T>
requires std::is_integral_v<T> T Load(T x) { return x; }
inline void Store(float x, float* to) { *to = x; }
inline void Store(float x, __half* to) { *to = __float2half_rn(x); }
inline void Store(float x, __nv_bfloat16* to) { *to = __float2bfloat16_rn(x); }
template <typename T>
requires std::is_integral_v<T>
void Store(T x, T* to) { *to = x; }

template <typename T>
T Combine(ncclRedOp_t reduction, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return reduction == ncclSum    ? a + b
           : reduction == ncclProd ? a * b
           : reduction == ncclMax  ? std::fmax(a, b)
                                   : std::fmin(a, b);
  } else {
    using U = std::make_unsigned_t<T>;
    const uint64_t x = static_cast<U>(a), y = static_cast<U>(b);
    if (reduction == ncclSum) return static_cast<T>(x + y);
    if (reduction == ncclProd) return static_cast<T>(x * y);
    return reduction == ncclMax ? std::max(a, b) : std::min(a, b);
  }
}

template <typename T>
void ReduceAs(ncclRedOp_t reduction, const std::vector<const void*>& addends, void* out, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    T sum = static_cast<const T*>(addends[0])[i];
    for (size_t rank = 1; rank < addends.size(); ++rank) {
      Store(Combine(reduction, Load(sum), Load(static_cast<const T*>(addends[rank])[i])), &sum);
    }
    static_cast<T*>(out)[i] = sum;
  }
}

struct Type {
  ncclDataType_t type;
  const char* name;
  size_t size;
  void (*reduce)(ncclRedOp_t reduction, const std::vector<const void*>& addends, void* out, size_t count);
};
constexpr Type kTypes[] = {
    {ncclUint8, "uint8", 1, ReduceAs<uint8_t>},   {ncclInt32, "int32", 4, ReduceAs<int32_t>},
    {ncclInt64, "int64", 8, ReduceAs<int64_t>},   {ncclFloat16, "float16", 2, ReduceAs<__half>},
    {ncclFloat32, "float32", 4, ReduceAs<float>}, {ncclBfloat16, "bfloat16", 2, ReduceAs<__nv_bfloat16>}};

const Type* Find(ncclDataType_t type) {
  const auto it = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const Type& x) { return x.type == type; });
  return it == std::end(kTypes) ? nullptr : it;
}

}  // namespace

size_t SizeOf(ncclDataType_t type) {
  const Type* const found = Find(type);
  return found == nullptr ? 0 : found->size;
}

const char* NameOf(ncclDataType_t type) {
  const Type* const found = Find(type);
  return found == nullptr ? nullptr : found->name;
}

void Reduce(ncclDataType_t type, ncclRedOp_t reduction, const std::vector<const void*>& addends, void* out,
            size_t count) {
  Find(type)->reduce(reduction, addends, out, count);
}

}  // namespace oneflow::software_cuda
