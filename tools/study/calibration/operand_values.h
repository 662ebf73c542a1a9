// Values to measure kernels with: such that nothing is special about them. Zeros, denormal numbers and NaN are, on some
// devices by a factor of ten and more.
#pragma once

#include <cstdint>
#include <vector>

#include "oneflow_core/dtype.h"

namespace oneflow {

// Bytes of `count` elements: floating ones random in [1/4, 1), whole ones in [0, limit), bool 0 or 1. A function of its
// arguments alone. REQUIRES: limit > 0.
std::vector<uint8_t> OperandValues(DType dtype, int64_t count, uint64_t seed, int64_t limit = 64);

}  // namespace oneflow
