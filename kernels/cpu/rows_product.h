// c[m,n] = a[k,m]^T b[k,n] of bf16 where k, the rows, are many and the sums few, as of the gradient of a narrow layer's
// weight. The library would give its threads the sums, so that each of them reads and weaves all rows of an operand;
// here they are given rows:
//
//   for each block of a thread's rows:   weave the pairs of rows of a and b into panels of 32 columns
//                                        for each tile of 8 x 32 sums: add the block's pairs
//   c = the threads' sums, added in order
//
// Only where the processor has dot products of pairs (small_gemm.h).
#pragma once

#include "kernels/cpu/narrow_product.h"

namespace oneflow::cpu {

// Null where the library is as fast: of many sums, of few rows, of columns that fill no panels, and on processors that
// have no dot products of pairs. `threads`: the most that a run may use, by which sums are divided.
std::unique_ptr<NarrowProduct> MakeRowsProduct(const ProductShape& shape, DType in, DType out, int threads);

}  // namespace oneflow::cpu
