// The ReLU and its gradient, for kernels that fuse them.
#pragma once

#include "kernels/cpu/vec.h"

namespace oneflow::cpu {

// Written so that NaN stays NaN: it is not < 0.
OF_INLINE F32s Positive(F32s x) { return x < 0.0f ? Splat(0) : x; }

// dy where y passed a ReLU, so also where y is NaN; y may be what came out of it or what went in.
OF_INLINE F32s ReluSlope(F32s y, F32s dy) { return y <= 0.0f ? Splat(0) : dy; }

}  // namespace oneflow::cpu
