// c = op(a) op(b) of floats: of many rows by a small matrix as panel_gemm.h says, all others by oneDNN's sgemm.
//
// sgemm and not oneDNN's matmul primitive: on the shapes of transformers it is as fast or faster, it packs its
// operands, so a leading dimension that is a multiple of 4 KiB does not halve it, and it has nothing to prepare
// (kernels/NOTES.md).
#pragma once

#include <cstdint>

namespace oneflow::cpu {

// c[batch] = op(a[batch]) op(b[batch]), all row-major, op(a) [m,k] and op(b) [k,n]; op transposes where asked.
struct ProductShape {
  int64_t batch, m, n, k;
  bool transpose_a, transpose_b;
  bool packed_b = false;  // b lies in panels (oneflow_core/packed.h): one matrix of bf16
  // Elements from a row to the next, as matrices lie; 0: dense. Of one matrix only, and not of one in panels.
  int64_t row_a = 0, row_b = 0, row_c = 0;
  bool accumulate = false;  // c += op(a) op(b), of one matrix
  int64_t parts = 1;        // k in so many, a thread each (PartsOfRows)
};

// In how many parts the rows of a product a^T b, as of a weight's gradient, are best summed by up to `threads` threads.
int64_t PartsOfRows(const ProductShape& shape, int threads);

// Floats of workspace with which Gemm multiplies by panels; 0 where sgemm is as fast.
int64_t GemmWorkspace(const ProductShape& shape);
// c = op(a) op(b) of one pair of matrices of floats, and `bias`, n floats or null, added to each row. Null, or which
// call failed. `workspace`: null, or GemmWorkspace floats. REQUIRES: no bias of what accumulates.
const char* Gemm(const ProductShape& shape, const float* a, const float* b, float* c, float* workspace,
                 const float* bias = nullptr);

}  // namespace oneflow::cpu
