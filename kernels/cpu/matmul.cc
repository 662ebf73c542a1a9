// Matrix products on oneDNN's sgemm: matmul (rows times a weight), matmul_wgrad (x^T dy over all rows) and
// batch_matmul.
//
// sgemm and not oneDNN's matmul primitive: on the shapes of transformers it is as fast or faster, it packs its
// operands, so a leading dimension that is a multiple of 4 KiB does not halve it, and it has nothing to prepare
// (kernels/README.md, "Matmul").
#include <algorithm>
#include <vector>

#include "kernels/copy.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "oneapi/dnnl/dnnl.h"

namespace oneflow::cpu {
namespace {

// c[m,n] = op(a) op(b), all dense row-major; op transposes where asked.
const char* Gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const float* a, const float* b,
                 float* c) {
  if (m == 0 || n == 0) return nullptr;
  if (k == 0) {  // an empty sum; leading dimensions of zero are an error to sgemm
    FillZero(c, static_cast<size_t>(m * n) * sizeof(float));
    return nullptr;
  }
  const dnnl_status_t status = dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, 1.0f, a,
                                          transpose_a ? m : k, b, transpose_b ? k : n, 0.0f, c, n);
  return status == dnnl_success ? nullptr : "dnnl_sgemm failed";
}

// in: a[rows,k], w[k,n] or w[n,k].
const char* Matmul(const KernelArgs& args) {
  const bool transpose_b = args.attrs->Bool("transpose_b");
  const TensorArg& w = args.in[1];
  const int64_t k = w.dims[transpose_b ? 1 : 0], n = w.dims[transpose_b ? 0 : 1];
  return Gemm(false, transpose_b, Rows(args.in[0]), n, k, args.in[0].as<const float>(), w.as<const float>(),
              args.out[0].as<float>());
}

// in: x[rows,k], dy[rows,n]; out: dw[k,n], or dw[n,k] if transposed.
const char* MatmulWgrad(const KernelArgs& args) {
  const int transposed = args.attrs->Bool("transpose") ? 1 : 0;
  const TensorArg& a = args.in[transposed];
  const TensorArg& b = args.in[1 - transposed];
  return Gemm(true, false, Columns(a), Columns(b), Rows(a), a.as<const float>(), b.as<const float>(),
              args.out[0].as<float>());
}

// The index of the matrix of `x` that batch `batch` of the output `c` uses; dimensions of size 1 repeat.
int64_t MatrixOf(const TensorArg& x, const TensorArg& c, int64_t batch) {
  int64_t index = 0, stride = 1;
  for (int i = 1; i <= c.rank - 2; ++i) {
    const int64_t extent = c.dims[c.rank - 2 - i];
    const int64_t at = batch % extent;
    batch /= extent;
    const int64_t x_extent = i <= x.rank - 2 ? x.dims[x.rank - 2 - i] : 1;
    if (x_extent != 1) index += at * stride;
    stride *= x_extent;
  }
  return index;
}

// in: a[T...,m,k], b[T...,k,n], either transposed in its last two dimensions. Many small products run one per thread,
// few large ones with all threads each.
const char* BatchMatmul(const KernelArgs& args) {
  const bool transpose_a = args.attrs->Bool("transpose_a"), transpose_b = args.attrs->Bool("transpose_b");
  const TensorArg& a = args.in[0];
  const TensorArg& b = args.in[1];
  const TensorArg& c = args.out[0];
  if (c.count == 0) return nullptr;
  const int64_t m = c.dims[c.rank - 2], n = c.dims[c.rank - 1], k = a.dims[a.rank - (transpose_a ? 2 : 1)];
  const int64_t batches = c.count / (m * n);
  // Written by any thread that fails; all would say the same.
  const char* error = nullptr;
  const auto product = [&](int64_t begin, int64_t end) {
    for (int64_t batch = begin; batch < end; ++batch) {
      const char* const failed =
          Gemm(transpose_a, transpose_b, m, n, k, a.as<const float>() + MatrixOf(a, c, batch) * m * k,
               b.as<const float>() + MatrixOf(b, c, batch) * k * n, c.as<float>() + batch * m * n);
      if (failed != nullptr) {
#pragma omp atomic write
        error = failed;
      }
    }
  };
  if (batches >= NumThreads()) {
    ParallelFor(batches, Grain((m * k + k * n + m * n) * static_cast<int64_t>(sizeof(float))), product);
  } else {
    product(0, batches);
  }
  return error;
}

}  // namespace

KernelList MatmulKernels() {
  return {{"matmul", DType::kFloat32, Matmul},
          {"matmul_wgrad", DType::kFloat32, MatmulWgrad},
          {"batch_matmul", DType::kFloat32, BatchMatmul}};
}

}  // namespace oneflow::cpu
