// Whether the numbers of a job's state are numbers.
#pragma once

#include <cstdint>

#include "oneflow_core/dtype.h"

namespace oneflow {

enum class Finiteness {
  kFinite,
  kInfinite,  // some element is infinite, none is NaN
  kNan,       // some element is NaN
};

// What the elements are; kFinite of types that are not floating. One pass, at the speed of memory.
Finiteness FinitenessOf(DType dtype, const char* data, int64_t count);

// Whether every element is finite and, in f32 and bf16, its square is too: a weight of 1e30 is a number, and hardly
// anything that is computed from it is one.
bool SquaresAreFinite(DType dtype, const char* data, int64_t count);

}  // namespace oneflow
