#include "kernels/cuda/gemm.h"

#include "kernels/cuda/handles.h"

namespace oneflow::cuda {
namespace {

constexpr uintptr_t kWorkspaceAlignment = 256;
constexpr size_t kLibraryBytes = kGemmWorkspaceBytes - kWorkspaceAlignment;

cudaDataType_t LibraryType(DType dtype) {
  return dtype == DType::kBFloat16 ? CUDA_R_16BF : dtype == DType::kFloat16 ? CUDA_R_16F : CUDA_R_32F;
}

}  // namespace

// A row-major [rows, columns] matrix as cuBLAS sees it: column-major, transposed.
Gemm::Layout Gemm::MakeLayout(DType dtype, int64_t rows, int64_t columns, int64_t batch, int64_t stride) {
  cublasLtMatrixLayout_t raw = nullptr;
  if (cublasLtMatrixLayoutCreate(&raw, LibraryType(dtype), columns, rows, columns) != CUBLAS_STATUS_SUCCESS) {
    return nullptr;
  }
  Layout layout(raw);
  const int32_t count = static_cast<int32_t>(batch);
  const auto set = [raw](cublasLtMatrixLayoutAttribute_t attribute, const auto& value) {
    return cublasLtMatrixLayoutSetAttribute(raw, attribute, &value, sizeof(value)) == CUBLAS_STATUS_SUCCESS;
  };
  const bool is_set =
      set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, count) && set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride);
  return is_set ? std::move(layout) : nullptr;
}

std::unique_ptr<Gemm> Gemm::Make(const Product2d& p) {
  auto gemm = std::make_unique<Gemm>();
  return gemm->Plan(p) ? std::move(gemm) : nullptr;
}

// As c is row-major, what is computed is c^T = op(b)^T op(a)^T.
const char* Gemm::Run(cudaStream_t stream, const void* a, const void* b, void* c, void* workspace) const {
  const cublasLtHandle_t handle = ThreadBlasHandle();
  if (handle == nullptr) return "cublasLtCreate failed";
  const float alpha = 1, beta = accumulate_ ? 1 : 0;
  const uintptr_t begin = reinterpret_cast<uintptr_t>(workspace);
  void* const aligned = reinterpret_cast<void*>((begin + kWorkspaceAlignment - 1) & -kWorkspaceAlignment);
  const cublasStatus_t status = cublasLtMatmul(handle, desc_.get(), &alpha, b, b_.get(), a, a_.get(), &beta, c,
                                               c_.get(), c, c_.get(), &algo_, aligned, kLibraryBytes, stream);
  return status == CUBLAS_STATUS_SUCCESS ? nullptr : cublasLtGetStatusString(status);
}

bool Gemm::Plan(const Product2d& p) {
  const cublasLtHandle_t handle = ThreadBlasHandle();
  cublasLtMatmulDesc_t desc = nullptr;
  if (handle == nullptr || p.batch > INT32_MAX) return false;
  // COMPUTE_32F: fp32 multiplications and sums; TF32 would be COMPUTE_32F_FAST_TF32.
  if (cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F) != CUBLAS_STATUS_SUCCESS) return false;
  desc_.reset(desc);
  const cublasOperation_t first = p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t second = p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  const auto set = [desc](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    return cublasLtMatmulDescSetAttribute(desc, attribute, &value, sizeof(value)) == CUBLAS_STATUS_SUCCESS;
  };
  if (!set(CUBLASLT_MATMUL_DESC_TRANSA, first) || !set(CUBLASLT_MATMUL_DESC_TRANSB, second)) return false;
  a_ =
      p.transpose_a ? MakeLayout(p.in, p.k, p.m, p.batch, p.a_stride) : MakeLayout(p.in, p.m, p.k, p.batch, p.a_stride);
  b_ =
      p.transpose_b ? MakeLayout(p.in, p.n, p.k, p.batch, p.b_stride) : MakeLayout(p.in, p.k, p.n, p.batch, p.b_stride);
  c_ = MakeLayout(p.out, p.m, p.n, p.batch, p.c_stride);
  if (a_ == nullptr || b_ == nullptr || c_ == nullptr) return false;

  cublasLtMatmulPreference_t raw = nullptr;
  if (cublasLtMatmulPreferenceCreate(&raw) != CUBLAS_STATUS_SUCCESS) return false;
  const Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> preference(raw);
  const auto prefer = [raw](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    return cublasLtMatmulPreferenceSetAttribute(raw, attribute, &value, sizeof(value)) == CUBLAS_STATUS_SUCCESS;
  };
  const bool is_set = prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kLibraryBytes) &&
                      prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, p.alignment) &&
                      prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, p.alignment) &&
                      prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, p.alignment) &&
                      prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, p.alignment);
  if (!is_set) return false;
  cublasLtMatmulHeuristicResult_t result = {};
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle, desc, b_.get(), a_.get(), c_.get(), c_.get(), raw, 1, &result, &found);
  if (status != CUBLAS_STATUS_SUCCESS || found == 0) return false;
  algo_ = result.algo;
  accumulate_ = p.accumulate;
  return true;
}

}  // namespace oneflow::cuda
