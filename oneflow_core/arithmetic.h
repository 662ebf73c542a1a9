// Whole numbers, as the standard library does not have them.
#pragma once

#include <cstdint>

namespace oneflow {

// The largest whole number that is at most a / b; b > 0.
inline int64_t FloorDiv(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

}  // namespace oneflow
