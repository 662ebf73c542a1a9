#include "actor/checkpoint/finite.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "actor/element.h"

namespace oneflow {
namespace {

// The largest of the elements' bits without their sign. As integers they are ordered like the magnitudes, infinity
// behind all numbers and NaN behind infinity.
template <typename Bits>
Bits LargestMagnitude(const char* data, int64_t count) {
  constexpr Bits kSign = Bits{1} << (8 * sizeof(Bits) - 1);
  Bits largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, data + i * static_cast<int64_t>(sizeof(Bits)), sizeof(Bits));
    largest = std::max<Bits>(largest, bits & static_cast<Bits>(~kSign));
  }
  return largest;
}

uint32_t LargestBits(DType dtype, const char* data, int64_t count) {
  return SizeOf(dtype) == 4 ? LargestMagnitude<uint32_t>(data, count) : LargestMagnitude<uint16_t>(data, count);
}

uint32_t InfinityBits(DType dtype) {
  if (dtype == DType::kFloat32) return 0x7f800000;
  return dtype == DType::kBFloat16 ? 0x7f80 : 0x7c00;
}

}  // namespace

Finiteness FinitenessOf(DType dtype, const char* data, int64_t count) {
  if (!IsFloating(dtype)) return Finiteness::kFinite;
  const uint32_t largest = LargestBits(dtype, data, count), infinity = InfinityBits(dtype);
  if (largest > infinity) return Finiteness::kNan;
  return largest == infinity ? Finiteness::kInfinite : Finiteness::kFinite;
}

bool SquaresAreFinite(DType dtype, const char* data, int64_t count) {
  if (!IsFloating(dtype)) return true;
  const uint32_t bits = LargestBits(dtype, data, count);
  alignas(4) char one[4];
  std::memcpy(one, &bits, sizeof(one));  // little-endian: the low bytes are the element
  const double largest = LoadElement(dtype, one, 0);
  if (dtype == DType::kFloat16) return std::isfinite(largest);  // of which 300 is an ordinary value
  constexpr double kMost = 3.3895313892515355e38;               // of bf16, a little less than of f32
  return std::isfinite(largest) && largest * largest <= kMost;
}

}  // namespace oneflow
