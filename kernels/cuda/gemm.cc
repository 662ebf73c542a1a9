#include "kernels/cuda/gemm.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>
#include <utility>

#include "kernels/cuda/handles.h"
#include "kernels/cuda/runtime.h"
#include "kernels/cuda/trial.h"

namespace oneflow::cuda {
namespace {

constexpr uintptr_t kWorkspaceAlignment = 256;
constexpr size_t kLibraryBytes = kGemmWorkspaceBytes - kWorkspaceAlignment;

cudaDataType_t LibraryType(DType dtype) {
  return dtype == DType::kBFloat16 ? CUDA_R_16BF : dtype == DType::kFloat16 ? CUDA_R_16F : CUDA_R_32F;
}

// So many of the library's candidates are measured: the best of all is among the first few as a rule, and each takes a
// few milliseconds of the load.
constexpr int kMeasured = 8;
}  // namespace

std::string Product2d::ToString() const {
  std::ostringstream text;
  text << (RoundsToTf32() ? "tf32" : Name(in)) << " " << Name(out) << " " << (transpose_a ? "t" : "n")
       << (transpose_b ? "t" : "n") << " " << m << "x" << n << "x" << k << " x" << batch << " " << a_stride << " "
       << b_stride << " " << c_stride << " sum " << accumulate << " align " << alignment;
  if (a_row != 0 || b_row != 0 || c_row != 0) text << " rows " << a_row << " " << b_row << " " << c_row;
  return text.str();
}

// A row-major [rows, columns] matrix as cuBLAS sees it: column-major, transposed.
Gemm::Layout Gemm::MakeLayout(DType dtype, int64_t rows, int64_t columns, int64_t row, int64_t batch, int64_t stride) {
  cublasLtMatrixLayout_t raw = nullptr;
  const int64_t lead = row == 0 ? columns : row;
  if (cublasLtMatrixLayoutCreate(&raw, LibraryType(dtype), columns, rows, lead) != CUBLAS_STATUS_SUCCESS) {
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

std::unique_ptr<Gemm> Gemm::Make(const Product2d& p, ProductAlgorithms& algorithms) {
  auto gemm = std::make_unique<Gemm>();
  if (ThreadBlasHandle() == nullptr || !gemm->Describe(p) || !gemm->Choose(p, algorithms)) return nullptr;
  return gemm;
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

bool Gemm::Describe(const Product2d& p) {
  cublasLtMatmulDesc_t desc = nullptr;
  if (p.batch > INT32_MAX) return false;
  const cublasComputeType_t compute = p.RoundsToTf32() ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  if (cublasLtMatmulDescCreate(&desc, compute, CUDA_R_32F) != CUBLAS_STATUS_SUCCESS) return false;
  desc_.reset(desc);
  accumulate_ = p.accumulate;
  const cublasOperation_t first = p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t second = p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  const auto set = [desc](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    return cublasLtMatmulDescSetAttribute(desc, attribute, &value, sizeof(value)) == CUBLAS_STATUS_SUCCESS;
  };
  if (!set(CUBLASLT_MATMUL_DESC_TRANSA, first) || !set(CUBLASLT_MATMUL_DESC_TRANSB, second)) return false;
  const auto layout = [&](bool transposed, int64_t rows, int64_t columns, int64_t row, int64_t stride) {
    if (transposed) std::swap(rows, columns);
    return MakeLayout(p.in, rows, columns, row, p.batch, stride);
  };
  a_ = layout(p.transpose_a, p.m, p.k, p.a_row, p.a_stride);
  b_ = layout(p.transpose_b, p.k, p.n, p.b_row, p.b_stride);
  c_ = MakeLayout(p.out, p.m, p.n, p.c_row, p.batch, p.c_stride);
  return a_ != nullptr && b_ != nullptr && c_ != nullptr;
}

// As many as the library offers, up to `most`, its best guess first.
std::vector<cublasLtMatmulAlgo_t> Gemm::Candidates(const Product2d& p, int most) const {
  cublasLtMatmulPreference_t raw = nullptr;
  if (cublasLtMatmulPreferenceCreate(&raw) != CUBLAS_STATUS_SUCCESS) return {};
  const Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> preference(raw);
  const auto prefer = [raw](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    return cublasLtMatmulPreferenceSetAttribute(raw, attribute, &value, sizeof(value)) == CUBLAS_STATUS_SUCCESS;
  };
  const bool is_set = prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kLibraryBytes) &&
                      prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, p.alignment) &&
                      prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, p.alignment) &&
                      prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, p.alignment) &&
                      prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, p.alignment);
  if (!is_set) return {};
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<size_t>(most));
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(ThreadBlasHandle(), desc_.get(), b_.get(), a_.get(),
                                                               c_.get(), c_.get(), raw, most, results.data(), &found);
  if (status != CUBLAS_STATUS_SUCCESS) return {};
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (int i = 0; i < found; ++i) {
    if (results[i].state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(results[i].algo);
  }
  return algorithms;
}

bool Gemm::Takes(const cublasLtMatmulAlgo_t& algorithm) const {
  cublasLtMatmulHeuristicResult_t result = {};
  const cublasStatus_t status = cublasLtMatmulAlgoCheck(ThreadBlasHandle(), desc_.get(), b_.get(), a_.get(), c_.get(),
                                                        c_.get(), &algorithm, &result);
  return status == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= kLibraryBytes;
}

bool Gemm::Choose(const Product2d& p, ProductAlgorithms& algorithms) {
  const std::optional<cublasLtMatmulAlgo_t> known = algorithms.Find(p.ToString());
  if (known.has_value() && Takes(*known)) {
    algo_ = *known;
    return true;
  }
  if (known.has_value()) {
    std::fprintf(stderr, "cuBLASLt does not take the algorithm that ONEFLOW_CUDA_PRODUCTS has for '%s'\n",
                 p.ToString().c_str());
  }
  const bool measures = algorithms.measures() && !known.has_value();
  const std::vector<cublasLtMatmulAlgo_t> candidates = Candidates(p, measures ? kMeasured : 1);
  if (candidates.empty()) return false;
  algo_ = candidates[0];
  if (!measures) return true;
  const char* why = nullptr;
  if (Measure(p, candidates, &why)) {
    algorithms.Add(p.ToString(), algo_);
  } else {
    std::fprintf(stderr, "'%s' is not measured: %s\n", p.ToString().c_str(), why);
  }
  return true;
}

bool Gemm::Measure(const Product2d& p, const std::vector<cublasLtMatmulAlgo_t>& candidates, const char** why) {
  const auto bytes = [&](DType dtype, int64_t count, int64_t stride) {
    return static_cast<size_t>(count + (p.batch - 1) * stride) * SizeOf(dtype);
  };
  const auto count = [](bool transposed, int64_t rows, int64_t columns, int64_t row) {
    return row == 0 ? rows * columns : (transposed ? columns : rows) * row;
  };
  Trial trial({bytes(p.in, count(p.transpose_a, p.m, p.k, p.a_row), p.a_stride),
               bytes(p.in, count(p.transpose_b, p.k, p.n, p.b_row), p.b_stride),
               bytes(p.out, count(false, p.m, p.n, p.c_row), p.c_stride), kGemmWorkspaceBytes});
  double fastest = INFINITY;
  size_t chosen = 0;
  for (size_t i = 0; i < candidates.size() && trial.error == nullptr; ++i) {
    algo_ = candidates[i];
    const double seconds = trial.Seconds([&](cudaStream_t stream, const std::vector<void*>& memory) {
      return Run(stream, memory[0], memory[1], memory[2], memory[3]);
    });
    if (seconds < fastest) chosen = i;
    fastest = std::min(fastest, seconds);
  }
  *why = trial.error;
  algo_ = candidates[trial.error == nullptr ? chosen : 0];
  return trial.error == nullptr;
}

}  // namespace oneflow::cuda
