// A product on cuBLASLt. Descriptors and the choice of an algorithm depend on shapes only and are made once. The
// algorithm is the one in a file (product_algorithms.h), otherwise the library's first choice. When the file is being
// filled, it is the fastest of the library's first few.
//
// Sums are always fp32, and products of floats do not use TF32, so that a GPU and a CPU give the same losses. The
// compiler inserts casts where operands have 16 bits.
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

// The workspace of a product: the size that cuBLAS recommends on Hopper, plus room to align it as cuBLASLt requires.
// Algorithms that need more are not chosen.
inline constexpr size_t kGemmWorkspaceBytes = (size_t{32} << 20) + 256;

// c[m,n] = op(a) op(b), all row-major; op transposes where asked. `batch` products at once; strides in elements, 0
// repeats. From row to row of an operand are as many elements as it has columns, or `..._row`.
struct Product2d {
  bool transpose_a = false, transpose_b = false;
  int64_t m = 0, n = 0, k = 0;
  int64_t batch = 1, a_stride = 0, b_stride = 0, c_stride = 0;
  int64_t a_row = 0, b_row = 0, c_row = 0;  // 0: rows lie one behind the other
  DType in = DType::kFloat32, out = DType::kFloat32;
  bool accumulate = false;  // c += op(a) op(b)
  bool tf32 = false;        // operands of f32 may be rounded to TF32
  uint32_t alignment = 64;  // bytes to which all operands are aligned

  bool RoundsToTf32() const { return tf32 && in == DType::kFloat32; }
  // The product as text, its key in files of algorithms: "bf16 f32 nt 4096x3072x768 x1 0 0 0 sum 0 align 64"; with
  // `tf32` the first "f32" is "tf32", and behind it are the lengths of rows where one is given: "rows 0 0 3136".
  std::string ToString() const;
};

// A product with its algorithm. For one thread at a time.
class Gemm {
 public:
  // Null if the library has no algorithm. If `algorithms` measures, the product runs on memory of its own.
  static std::unique_ptr<Gemm> Make(const Product2d& p, ProductAlgorithms& algorithms);
  static std::unique_ptr<Gemm> Make(const Product2d& p) { return Make(p, ProductAlgorithms::OfProcess()); }

  // Launches the product. `workspace` has kGemmWorkspaceBytes. Null, or what is wrong.
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

  static Layout MakeLayout(DType dtype, int64_t rows, int64_t columns, int64_t row, int64_t batch, int64_t stride);
  // These return false, or no result, if the library refuses.
  bool Describe(const Product2d& p);
  std::vector<cublasLtMatmulAlgo_t> Candidates(const Product2d& p, int most) const;
  bool Takes(const cublasLtMatmulAlgo_t& algorithm) const;
  bool Choose(const Product2d& p, ProductAlgorithms& algorithms);

  // Chooses the fastest, measured on memory of its own. False, with the reason, if memory is short or a product fails.
  bool Measure(const Product2d& p, const std::vector<cublasLtMatmulAlgo_t>& candidates, const char** why);

  Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> desc_;
  Layout a_, b_, c_;
  cublasLtMatmulAlgo_t algo_ = {};
  bool accumulate_ = false;
};

}  // namespace oneflow::cuda
