// c = a op(b) + bias of floats, for many rows and a small b:
//
//   b lies in panels of two registers' columns            once, for all threads, in the workspace
//   for each tile of a thread's rows:                     its rows of a stay in the first cache
//     for each panel:   sums of the tile in registers     meanwhile the next tile's rows are asked for
//
// Unlike sgemm, this does not copy a. It is faster where no cache holds a, and where b is transposed, which the library
// divides badly between threads (kernels/NOTES.md).
#pragma once

#include "kernels/cpu/gemm.h"

namespace oneflow::cpu {

// Whether this way is faster. REQUIRED of each shape that GemmByPanels() gets.
bool SuitsPanels(const ProductShape& shape);

// `panels`: n * k floats. `bias`: n floats, or null.
void GemmByPanels(const ProductShape& shape, const float* a, const float* b, const float* bias, float* c,
                  float* panels);

}  // namespace oneflow::cpu
