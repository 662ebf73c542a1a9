// Matrix products on cuBLASLt: matmul (rows times a weight), matmul_wgrad (x^T dy over all rows) and batch_matmul.
//
// Everything that depends on shapes only (descriptors, the choice of an algorithm) is made in `prepare`. Sums are fp32
// throughout, and products of floats without TF32, so that a GPU and a CPU give the same losses; operands of 16 bits
// are the compiler's to ask for, with casts.
#include <cublasLt.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "kernels/cuda/handles.h"
#include "kernels/cuda/kernels.h"
#include "kernels/loops.h"

namespace oneflow::cuda {
namespace {

// What cuBLAS recommends on Hopper. Algorithms that need more are not chosen.
constexpr size_t kWorkspaceBytes = size_t{32} << 20;
// What cuBLASLt asks of a workspace; that of an instruction is aligned to 64 bytes.
constexpr uintptr_t kWorkspaceAlignment = 256;

template <typename T, auto kDestroy>
struct Destroy {
  using pointer = T;
  void operator()(T x) const { kDestroy(x); }
};
template <typename T, auto kDestroy>
using Owned = std::unique_ptr<T, Destroy<T, kDestroy>>;
using MatmulDesc = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

// c[m,n] = op(a) op(b), all dense row-major; op transposes where asked. `batch` products at once; strides in elements,
// 0 repeats.
struct Product2d {
  bool transpose_a = false, transpose_b = false;
  int64_t m = 0, n = 0, k = 0;
  int64_t batch = 1, a_stride = 0, b_stride = 0, c_stride = 0;
  DType in = DType::kFloat32, out = DType::kFloat32;
  uint32_t alignment = 64;  // the most, in bytes, of all operands
};

cudaDataType_t LibraryType(DType dtype) {
  return dtype == DType::kBFloat16 ? CUDA_R_16BF : dtype == DType::kFloat16 ? CUDA_R_16F : CUDA_R_32F;
}

// A row-major [rows, columns] matrix as cuBLAS sees it: column-major, transposed.
Layout MakeLayout(DType dtype, int64_t rows, int64_t columns, int64_t batch, int64_t stride) {
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

// A product with its algorithm. As c is row-major, what is computed is c^T = op(b)^T op(a)^T.
class Gemm {
 public:
  // Null if the library has no algorithm.
  static std::unique_ptr<Gemm> Make(const Product2d& p) {
    auto gemm = std::make_unique<Gemm>();
    return gemm->Plan(p) ? std::move(gemm) : nullptr;
  }

  const char* Run(const KernelArgs& args, const void* a, const void* b, void* c) const {
    const cublasLtHandle_t handle = ThreadBlasHandle();
    if (handle == nullptr) return "cublasLtCreate failed";
    const float one = 1, zero = 0;
    const uintptr_t workspace = reinterpret_cast<uintptr_t>(args.workspace);
    void* const aligned = reinterpret_cast<void*>((workspace + kWorkspaceAlignment - 1) & -kWorkspaceAlignment);
    const cublasStatus_t status =
        cublasLtMatmul(handle, desc_.get(), &one, b, b_.get(), a, a_.get(), &zero, c, c_.get(), c, c_.get(), &algo_,
                       aligned, kWorkspaceBytes, static_cast<cudaStream_t>(args.stream));
    return status == CUBLAS_STATUS_SUCCESS ? nullptr : cublasLtGetStatusString(status);
  }

 private:
  bool Plan(const Product2d& p) {
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
    a_ = p.transpose_a ? MakeLayout(p.in, p.k, p.m, p.batch, p.a_stride)
                       : MakeLayout(p.in, p.m, p.k, p.batch, p.a_stride);
    b_ = p.transpose_b ? MakeLayout(p.in, p.n, p.k, p.batch, p.b_stride)
                       : MakeLayout(p.in, p.k, p.n, p.batch, p.b_stride);
    c_ = MakeLayout(p.out, p.m, p.n, p.batch, p.c_stride);
    if (a_ == nullptr || b_ == nullptr || c_ == nullptr) return false;

    cublasLtMatmulPreference_t raw = nullptr;
    if (cublasLtMatmulPreferenceCreate(&raw) != CUBLAS_STATUS_SUCCESS) return false;
    const Preference preference(raw);
    const auto prefer = [raw](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      return cublasLtMatmulPreferenceSetAttribute(raw, attribute, &value, sizeof(value)) == CUBLAS_STATUS_SUCCESS;
    };
    const bool is_set = prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes) &&
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
    return true;
  }

  MatmulDesc desc_;
  Layout a_, b_, c_;
  cublasLtMatmulAlgo_t algo_ = {};
};

// Products that one `Gemm` does, one after another: a launch per entry, with offsets in elements.
struct Launch {
  int64_t a, b, c;
};
struct Plan {
  std::unique_ptr<Gemm> gemm;  // null: nothing to multiply, the output is an empty sum
  std::vector<Launch> launches;
};

std::shared_ptr<void> MakePlan(const KernelArgs& args, Product2d p, std::vector<Launch> launches) {
  p.in = args.in[0].dtype;
  p.out = args.out[0].dtype;
  // An operand begins where a row may, as those of a group of ragged rows do, and later launches begin anywhere.
  for (const TensorArg& x : {args.in[0], args.in[1], args.out[0]}) {
    p.alignment = std::gcd(p.alignment, static_cast<uint32_t>(Columns(x)) * static_cast<uint32_t>(SizeOf(x.dtype)));
  }
  if (launches.size() > 1) p.alignment = SizeOf(p.in);
  auto plan = std::make_shared<Plan>();
  plan->launches = std::move(launches);
  if (p.m == 0 || p.n == 0 || p.k == 0 || p.batch == 0 || plan->launches.empty()) return plan;
  plan->gemm = Gemm::Make(p);
  return plan->gemm == nullptr ? nullptr : plan;
}

size_t Workspace(const KernelArgs&) { return kWorkspaceBytes + kWorkspaceAlignment; }

// The operands a and b of the products are in[kA] and in[1 - kA].
const char* Execute(const KernelArgs& args, int a) {
  const Plan& plan = *static_cast<const Plan*>(args.state);
  const TensorArg& out = args.out[0];
  const auto at_element = [](const TensorArg& x, int64_t element) {
    return x.as<char>() + element * static_cast<int64_t>(SizeOf(x.dtype));
  };
  if (plan.gemm == nullptr) {
    if (args.out[0].count == 0) return nullptr;
    const cudaError_t error = cudaMemsetAsync(out.data, 0, static_cast<size_t>(out.count) * SizeOf(out.dtype),
                                              static_cast<cudaStream_t>(args.stream));
    return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
  }
  for (const Launch& at : plan.launches) {
    const char* const error =
        plan.gemm->Run(args, at_element(args.in[a], at.a), at_element(args.in[1 - a], at.b), at_element(out, at.c));
    if (error != nullptr) return error;
  }
  return nullptr;
}

// in: a[rows,k], w[k,n] or w[n,k].
std::shared_ptr<void> PrepareMatmul(const KernelArgs& args) {
  const bool transpose_b = args.attrs->Bool("transpose_b");
  const TensorArg& w = args.in[1];
  return MakePlan(args,
                  {.transpose_b = transpose_b,
                   .m = Rows(args.in[0]),
                   .n = w.dims[transpose_b ? 0 : 1],
                   .k = w.dims[transpose_b ? 1 : 0]},
                  {{0, 0, 0}});
}

const char* Matmul(const KernelArgs& args) { return Execute(args, 0); }

// in: x[rows,k], dy[rows,n]; out: dw[k,n], or dw[n,k] if transposed.
int FirstOf(const KernelArgs& args) { return args.attrs->Bool("transpose") ? 1 : 0; }

std::shared_ptr<void> PrepareWgrad(const KernelArgs& args) {
  const TensorArg& a = args.in[FirstOf(args)];
  return MakePlan(args, {.transpose_a = true, .m = Columns(a), .n = Columns(args.in[1 - FirstOf(args)]), .k = Rows(a)},
                  {{0, 0, 0}});
}

const char* MatmulWgrad(const KernelArgs& args) { return Execute(args, FirstOf(args)); }

// in: a[T...,m,k], b[T...,k,n], either transposed in its last two dimensions. The innermost merged batch dimension goes
// to the library, the others are launches.
std::shared_ptr<void> PrepareBatchMatmul(const KernelArgs& args) {
  const TensorArg &a = args.in[0], &b = args.in[1], &c = args.out[0];
  Product2d p = {.transpose_a = args.attrs->Bool("transpose_a"), .transpose_b = args.attrs->Bool("transpose_b")};
  p.m = c.dims[c.rank - 2];
  p.n = c.dims[c.rank - 1];
  p.k = a.dims[a.rank - (p.transpose_a ? 2 : 1)];
  const int64_t a_size = p.m * p.k, b_size = p.k * p.n, c_size = p.m * p.n;
  std::vector<LoopDim<2>> dims = BroadcastLoop(a, b, c, /*without=*/2);
  if (!dims.empty()) {
    p.batch = dims.back().extent;
    p.a_stride = dims.back().stride[0] * a_size;
    p.b_stride = dims.back().stride[1] * b_size;
    p.c_stride = c_size;
    dims.pop_back();
  }
  int64_t count = 1;
  for (const LoopDim<2>& dim : dims) count *= dim.extent;
  std::vector<Launch> launches;
  for (int64_t launch = 0; launch < count; ++launch) {
    Launch at = {0, 0, launch * p.batch * c_size};
    int64_t rest = launch;
    for (size_t i = dims.size(); i-- > 0; rest /= dims[i].extent) {
      at.a += rest % dims[i].extent * dims[i].stride[0] * a_size;
      at.b += rest % dims[i].extent * dims[i].stride[1] * b_size;
    }
    launches.push_back(at);
  }
  return MakePlan(args, p, std::move(launches));
}

const char* BatchMatmul(const KernelArgs& args) { return Execute(args, 0); }

}  // namespace

KernelList MatmulKernels() {
  KernelList kernels;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    kernels.push_back({"matmul", dtype, Matmul, Workspace, PrepareMatmul});
    kernels.push_back({"matmul_wgrad", dtype, MatmulWgrad, Workspace, PrepareWgrad});
    kernels.push_back({"batch_matmul", dtype, BatchMatmul, Workspace, PrepareBatchMatmul});
  }
  return kernels;
}

}  // namespace oneflow::cuda
