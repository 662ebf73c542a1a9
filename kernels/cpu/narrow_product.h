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

#include "kernels/cpu/gemm.h"
#include "oneflow_core/dtype.h"

namespace oneflow::cpu {

// One thread at a time; made for the OpenMP threads of the calling thread.
class NarrowProduct {
 public:
  enum class Way : uint8_t { kLibrary, kWidened };
  // The fastest way on this processor.
  static Way Fastest(DType in);

  // A product of operands of the narrow type `in` with a result of the floating type `out`. Null if the library has no
  // such product. REQUIRES: for kWidened the matrices are dense and c is not accumulated.
  static std::unique_ptr<NarrowProduct> Make(const ProductShape& shape, DType in, DType out, Way way);

  virtual ~NarrowProduct() = default;
  virtual size_t WorkspaceBytes() const = 0;
  // Null, or which call failed.
  virtual const char* Run(const void* a, const void* b, void* c, void* workspace) const = 0;
};

}  // namespace oneflow::cpu
