// Products of matrices of 16-bit floats, summed in f32 and rounded once, if at all.
//
//   library    oneDNN's matmul: bf16 where it is faster than f32, on processors with AMX and AMD's with AVX-512 for
//              bf16
//   widened    operands become floats in the workspace, for oneDNN's sgemm: f16, and bf16 on all other processors. On
//              Intel's without AMX vdpbf16ps takes twice as long as the same product of floats
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "oneflow_core/dtype.h"

namespace oneflow::cpu {

// c[batch] = op(a[batch]) op(b[batch]), all row-major, op(a) [m,k] and op(b) [k,n]; op transposes where asked.
struct ProductShape {
  int64_t batch, m, n, k;
  bool transpose_a, transpose_b;
  bool packed_b = false;  // b lies in panels (oneflow_core/packed.h): one matrix of bf16
  // Elements from a row to the next, as matrices lie; 0: dense. Of one matrix only, and not of one in panels.
  int64_t row_a = 0, row_b = 0, row_c = 0;
  bool accumulate = false;  // c += op(a) op(b), of one matrix
};

// Floats of workspace in which Gemm turns a b around that lies transposed: a small one, for many rows. Else 0.
int64_t GemmWorkspace(const ProductShape& shape);
// c = op(a) op(b) of one pair of matrices of floats. Null, or which call failed. `workspace`: null, or GemmWorkspace.
const char* Gemm(const ProductShape& shape, const float* a, const float* b, float* c, float* workspace);

// One thread at a time; made for the OpenMP threads of the calling thread.
class NarrowProduct {
 public:
  enum class Way : uint8_t { kLibrary, kWidened };
  // The fastest on this processor.
  static Way Fastest(DType in);

  // Of operands `in`, which is narrow, to a floating `out`. Null if the library has no such product. REQUIRES: what is
  // widened is dense and not accumulated.
  static std::unique_ptr<NarrowProduct> Make(const ProductShape& shape, DType in, DType out, Way way);

  virtual ~NarrowProduct() = default;
  virtual size_t WorkspaceBytes() const = 0;
  // Null, or which call failed.
  virtual const char* Run(const void* a, const void* b, void* c, void* workspace) const = 0;
};

}  // namespace oneflow::cpu
