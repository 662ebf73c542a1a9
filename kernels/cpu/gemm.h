// c = op(a) op(b) of floats. Many rows by a small matrix go through panel_gemm.h, all others through oneDNN's sgemm.
//
// Why sgemm and not oneDNN's matmul primitive: it is at least as fast on the shapes of transformers, it packs its
// operands, so that a leading dimension of a multiple of 4 KiB costs nothing, and it needs no preparation
// (kernels/NOTES.md).
#pragma once

#include <cstdint>

namespace oneflow::cpu {

// c[batch] = op(a[batch]) op(b[batch]), all row-major, op(a) [m,k] and op(b) [k,n]; op transposes where asked.
struct ProductShape {
  int64_t batch, m, n, k;
  bool transpose_a, transpose_b;
  bool packed_b = false;  // b lies in panels (oneflow_core/packed.h): one matrix of bf16
  // Elements from one row to the next; 0: dense. Only for one matrix that is not in panels.
  int64_t row_a = 0, row_b = 0, row_c = 0;
  bool accumulate = false;  // c += op(a) op(b); only for one matrix
  int64_t parts = 1;        // k is cut into so many, a thread for each (PartsOfRows)
};

// The best number of parts for the sum over rows in a^T b, as in a weight's gradient, with up to `threads` threads.
int64_t PartsOfRows(const ProductShape& shape, int threads);

// Floats of workspace that Gemm needs to multiply by panels; 0 where sgemm is as fast.
int64_t GemmWorkspace(const ProductShape& shape);
// c = op(a) op(b) for one pair of matrices of floats, plus `bias` in each row: n floats, or null. Null, or which call
// failed. `workspace`: null, or GemmWorkspace floats. REQUIRES: no bias together with `accumulate`.
const char* Gemm(const ProductShape& shape, const float* a, const float* b, float* c, float* workspace,
                 const float* bias = nullptr);

}  // namespace oneflow::cpu
