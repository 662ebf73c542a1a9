// Matrix products on cuBLASLt: matmul (rows times a weight), matmul_wgrad (x^T dy over all rows) and batch_matmul.
#include <cuda_runtime.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "kernels/cuda/gemm.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/matmul_cross_entropy.h"
#include "kernels/loops.h"

namespace oneflow::cuda {
namespace {

// Products that one `Gemm` does, one after another: a launch per entry, with offsets in elements.
struct Launch {
  int64_t a, b, c;
};
struct Plan {
  std::unique_ptr<Gemm> gemm;  // null: nothing to multiply, the output is an empty sum
  std::unique_ptr<Gemm> next;  // of a sum over micro-batches: adds to those before
  std::vector<Launch> launches;
};

std::shared_ptr<Plan> MakePlan(const KernelArgs& args, Product2d p, std::vector<Launch> launches) {
  p.in = args.in[0].dtype;
  p.out = args.out[0].dtype;
  p.tf32 = args.attrs->Bool("tf32");
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

size_t Workspace(const KernelArgs&) { return kGemmWorkspaceBytes; }

// The operands a and b of the products are in[kA] and in[1 - kA].
const char* Execute(const KernelArgs& args, int a) {
  const Plan& plan = *static_cast<const Plan*>(args.state);
  const Gemm* const gemm = plan.next != nullptr && args.micro_batch > 0 ? plan.next.get() : plan.gemm.get();
  const TensorArg& out = args.out[0];
  const auto at_element = [](const TensorArg& x, int64_t element) {
    return x.as<char>() + element * static_cast<int64_t>(SizeOf(x.dtype));
  };
  if (gemm == nullptr) {
    if (args.out[0].count == 0) return nullptr;
    const cudaError_t error = cudaMemsetAsync(out.data, 0, static_cast<size_t>(out.count) * SizeOf(out.dtype),
                                              static_cast<cudaStream_t>(args.stream));
    return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
  }
  for (const Launch& at : plan.launches) {
    const char* const error = gemm->Run(static_cast<cudaStream_t>(args.stream), at_element(args.in[a], at.a),
                                        at_element(args.in[1 - a], at.b), at_element(out, at.c), args.workspace);
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

Product2d WgradOf(const KernelArgs& args) {
  const TensorArg& a = args.in[FirstOf(args)];
  return {.transpose_a = true, .m = Columns(a), .n = Columns(args.in[1 - FirstOf(args)]), .k = Rows(a)};
}

std::shared_ptr<void> PrepareWgrad(const KernelArgs& args) { return MakePlan(args, WgradOf(args), {{0, 0, 0}}); }

const char* MatmulWgrad(const KernelArgs& args) { return Execute(args, FirstOf(args)); }

// The same; the first micro-batch of a step overwrites what is there, later ones add to it.
std::shared_ptr<void> PrepareSum(const KernelArgs& args) {
  const std::shared_ptr<Plan> plan = MakePlan(args, WgradOf(args), {{0, 0, 0}});
  if (plan == nullptr || plan->gemm == nullptr) return plan;
  Product2d adding = WgradOf(args);
  adding.accumulate = true;
  const std::shared_ptr<Plan> next = MakePlan(args, adding, {{0, 0, 0}});
  if (next == nullptr) return nullptr;
  plan->next = std::move(next->gemm);
  return plan;
}

const char* AccumulateMatmulWgrad(const KernelArgs& args) {
  const bool is_empty = static_cast<const Plan*>(args.state)->gemm == nullptr;
  return is_empty && args.micro_batch > 0 ? nullptr : MatmulWgrad(args);
}

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
    kernels.push_back({"accumulate_matmul_wgrad", dtype, AccumulateMatmulWgrad, Workspace, PrepareSum});
    kernels.push_back({"batch_matmul", dtype, BatchMatmul, Workspace, PrepareBatchMatmul});
  }
  AddMatmulCrossEntropy(kernels);
  return kernels;
}

}  // namespace oneflow::cuda
