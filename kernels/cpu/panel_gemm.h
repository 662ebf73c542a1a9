// c = a op(b) + bias of floats where rows are many and b is small:
//
//   b lies in panels of two registers' columns            once, for all threads, in the workspace
//   for each tile of a thread's rows:                     its rows of a stay in the first cache
//     for each panel:   sums of the tile in registers     meanwhile the next tile's rows are asked for
//
// Against sgemm, which copies a too, what is gained is the time to wait for a where no cache holds it, and where b lies
// transposed, which the library divides badly between threads (kernels/NOTES.md).
#pragma once

#include "kernels/cpu/gemm.h"

namespace oneflow::cpu {

// Whether it is faster so. REQUIRES of what is multiplied so: this.
bool SuitsPanels(const ProductShape& shape);

// `panels`: n * k floats. `bias`: n floats, or null.
void GemmByPanels(const ProductShape& shape, const float* a, const float* b, const float* bias, float* c,
                  float* panels);

}  // namespace oneflow::cpu
