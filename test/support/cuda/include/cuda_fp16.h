// float16 as CUDA has it, for the device in software.
#pragma once

#include <cuda_runtime.h>

struct __half {
  _Float16 value = 0;
};

inline float __half2float(__half x) { return static_cast<float>(x.value); }
// To the nearest, ties to even.
inline __half __float2half_rn(float x) { return {static_cast<_Float16>(x)}; }
