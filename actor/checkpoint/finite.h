// Checks the numbers of a job's state for NaN and infinity.
#pragma once

#include <cstdint>

#include "oneflow_core/dtype.h"

namespace oneflow {

enum class Finiteness {
  kFinite,
  kInfinite,  // some element is infinite, none is NaN
  kNan,       // some element is NaN
};

// The worst of the elements; kFinite for types that are not floating. One pass, at the speed of memory.
Finiteness FinitenessOf(DType dtype, const char* data, int64_t count);

// Whether every element is finite and, in f32 and bf16, its square is too: a weight of 1e30 is finite, but almost
// nothing computed from it is.
bool SquaresAreFinite(DType dtype, const char* data, int64_t count);

}  // namespace oneflow
