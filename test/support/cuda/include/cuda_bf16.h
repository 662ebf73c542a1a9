// bfloat16 as CUDA has it, for the device in software: the upper half of a float.
#pragma once

#include <cuda_runtime.h>

struct __nv_bfloat16 {
  uint16_t bits = 0;
};

inline float __bfloat162float(__nv_bfloat16 x) { return __uint_as_float(unsigned{x.bits} << 16); }

// To the nearest, ties to even; a NaN stays one.
inline __nv_bfloat16 __float2bfloat16_rn(float x) {
  const unsigned bits = __float_as_uint(x);
  if (x != x) return {0x7fff};
  return {static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
