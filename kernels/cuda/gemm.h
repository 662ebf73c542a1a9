// A product on cuBLASLt: what depends on shapes only, descriptors and the choice of an algorithm, is made once. The
// algorithm is the one that a file names (product_algorithms.h), else the library's first choice; or the fastest of its
// first few, where the file is to be filled.
//
// Sums are fp32 throughout, and products of floats without TF32, so that a GPU and a CPU give the same losses; operands
// of 16 bits are the compiler's to ask for, with casts.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/product_algorithms.h"
#include "oneflow_core/dtype.h"

namespace oneflow::cuda {

// What a product may use, wherever it begins: what cuBLAS recommends on Hopper, and what cuBLASLt asks of its alignment
// beside that of an instruction's scratch memory. Algorithms that need more are not chosen.
inline constexpr size_t kGemmWorkspaceBytes = (size_t{32} << 20) + 256;

// c[m,n] = op(a) op(b), all row-major; op transposes where asked. `batch` products at once; strides in elements, 0
// repeats.
struct Product2d {
  bool transpose_a = false, transpose_b = false;
  int64_t m = 0, n = 0, k = 0;
  int64_t batch = 1, a_stride = 0, b_stride = 0, c_stride = 0;
  DType in = DType::kFloat32, out = DType::kFloat32;
  bool accumulate = false;  // c += op(a) op(b)
  bool tf32 = false;        // what is multiplied of f32 may be rounded to TF32
  uint32_t alignment = 64;  // the most, in bytes, of all operands

  bool RoundsToTf32() const { return tf32 && in == DType::kFloat32; }
  // All of it, as files of algorithms name it: "bf16 f32 nt 4096x3072x768 x1 0 0 0 sum 0 align 64"; "tf32" for the
  // first "f32" where it may be rounded.
  std::string ToString() const;
};

// A product with its algorithm. For one thread at a time.
class Gemm {
 public:
  // Null if the library has no algorithm. Where `algorithms` measures, it runs the product on memory of its own.
  static std::unique_ptr<Gemm> Make(const Product2d& p, ProductAlgorithms& algorithms);
  static std::unique_ptr<Gemm> Make(const Product2d& p) { return Make(p, ProductAlgorithms::OfProcess()); }

  // Launches it; `workspace` has kGemmWorkspaceBytes. Null, or what is wrong.
  const char* Run(cudaStream_t stream, const void* a, const void* b, void* c, void* workspace) const;

 private:
  template <typename T, auto kDestroy>
  struct Destroy {
    using pointer = T;
    void operator()(T x) const { kDestroy(x); }
  };
  template <typename T, auto kDestroy>
  using Owned = std::unique_ptr<T, Destroy<T, kDestroy>>;
  using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;

  static Layout MakeLayout(DType dtype, int64_t rows, int64_t columns, int64_t batch, int64_t stride);
  // Each false, or without a result, if the library refuses.
  bool Describe(const Product2d& p);
  std::vector<cublasLtMatmulAlgo_t> Candidates(const Product2d& p, int most) const;
  bool Takes(const cublasLtMatmulAlgo_t& algorithm) const;
  bool Choose(const Product2d& p, ProductAlgorithms& algorithms);

  // The fastest on memory of its own. False, with the reason, if there is no such memory or a product fails.
  bool Measure(const Product2d& p, const std::vector<cublasLtMatmulAlgo_t>& candidates, const char** why);

  Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> desc_;
  Layout a_, b_, c_;
  cublasLtMatmulAlgo_t algo_ = {};
  bool accumulate_ = false;
};

}  // namespace oneflow::cuda
