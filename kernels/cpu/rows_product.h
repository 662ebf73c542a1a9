// c[m,n] = a[k,m]^T b[k,n] of bf16 for many rows k and few sums m n, as in the gradient of a narrow layer's weight. The
// library divides the sums among its threads, so that each reads and packs all rows of an operand. Here threads divide
// the rows:
//
//   for each block of a thread's rows:   weave the pairs of rows of a and b into panels of 32 columns
//                                        for each tile of 8 x 32 sums: add the block's pairs
//   c = the threads' sums, added in order
//
// Only on processors with dot products of pairs (small_gemm.h).
#pragma once

#include "kernels/cpu/narrow_product.h"

namespace oneflow::cpu {

// Null where the library is as fast: for many sums, few rows, or columns that fill no panels, and on processors without
// dot products of pairs. `threads`: the most that a run may use; the partial sums depend on it.
std::unique_ptr<NarrowProduct> MakeRowsProduct(const ProductShape& shape, DType in, DType out, int threads);

}  // namespace oneflow::cpu
