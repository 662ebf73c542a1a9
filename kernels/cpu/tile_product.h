// Products of bf16 on tiles (tile.h):
//
//   c[m,n] = a[m,k] b[k,n]        b a weight in panels (oneflow_core/packed.h): a thread's rows of a stay in the second
//                                 cache, c goes past the caches where it is large
//   c[m,n] = a[k,m]^T b[k,n]      the gradient of a weight. Few sums: each thread takes some of the k rows, packs them
//                                 as it goes, and the threads' sums are added in order. Many: all threads pack both
//                                 operands, then divide the rows of c
#pragma once

#include <memory>

#include "kernels/cpu/narrow_product.h"

namespace oneflow::cpu {

// Null where there are no tiles, or the shape is none of these: of a batch, of columns that fill no blocks of 32, of
// rows that are not dense. `threads`: the most that a run may use; the bits of few sums depend on it.
std::unique_ptr<NarrowProduct> MakeTileProduct(const ProductShape& shape, DType in, DType out, int threads);

}  // namespace oneflow::cpu
