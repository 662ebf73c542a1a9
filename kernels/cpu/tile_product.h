// Products of bf16 on tiles (tile.h):
//
//   c[m,n] = a[m,k] b[k,n]        b a weight in panels (oneflow_core/packed.h): a thread's rows of a stay in the second
//                                 cache, c goes past the caches where it is large
//   c[m,n] = a[k,m]^T b[k,n]      the gradient of a weight. Few sums: each thread takes some of the k rows, packs them
//                                 as it goes, and the threads' sums are added in order. Many: all threads pack both
//                                 operands, then divide the rows of c
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/cpu/narrow_product.h"

namespace oneflow::cpu {

// A product, or a sum of products, of rows by weights in panels, and the ops on each sum while it is in registers:
//
//   z = a w + a' w' + ...      h = z + bias, or z gelu'(slope_of), or z       y = gelu(h)      column_sums = those of h
struct PanelProduct {
  struct Factor {
    const void* a;  // [m,k] bf16
    const void* w;  // [k,n] in panels
    int64_t k;      // a multiple of 32
  };
  int64_t m, n;  // n is a multiple of 64
  std::array<Factor, 3> factors;
  int num_factors = 1;
  void* h = nullptr;               // [m,n]
  DType dtype = DType::kBFloat16;  // of h, y and slope_of
  const float* bias = nullptr;     // [n]
  void* y = nullptr;               // [m,n]
  bool has_slope = false;          // whether the next two are set
  const void* slope_of = nullptr;  // [m,n]
  float* column_sums = nullptr;    // [n], of h as it was rounded
};
// Bytes of workspace; they do not depend on pointers. 0 on processors without tiles.
size_t PanelProductWorkspace(const PanelProduct& product);
// REQUIRES: the processor has tiles (tile.h), and the workspace. Null, or what is wrong.
const char* RunPanelProduct(const PanelProduct& product, void* workspace);

// Null on processors without tiles, and for batches, columns that are no multiple of 32, and rows that are not dense.
// `threads`: the most that a run may use. With few sums the bits depend on it.
std::unique_ptr<NarrowProduct> MakeTileProduct(const ProductShape& shape, DType in, DType out, int threads);

}  // namespace oneflow::cpu
