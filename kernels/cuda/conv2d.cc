// conv2d and its two gradients on cuDNN. The algorithm is the library's first choice, or what a file says
// (product_algorithms.h), among those that are deterministic
// and round nothing but the result, so that two runs are bitwise equal and a GPU agrees with a CPU:
//
//   operands   result     multiplied
//   f32        f32        in fp32, or as TF32 if the job says so
//   16 bits    the same   by tensor cores, summed in fp32
//   16 bits    f32        as TF32, which holds all that bf16 and f16 hold, summed in fp32
//
// The library has no convolution of 16-bit operands that gives floats: the operands are widened in the workspace. So
// they are where it has none of 16-bit operands for the shapes at all, and the result is narrowed.
//
// Where tensor cores multiply, what an algorithm makes of operands before it multiplies them (Winograd, Fourier) would
// be rounded: those are left out.
#include "kernels/cuda/conv2d.h"

#include <cuda_runtime.h>
#include <cudnn.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/cuda/cast.h"
#include "kernels/cuda/handles.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/trial.h"

namespace oneflow::cuda {
namespace {

template <typename T, auto kCreate, auto kDestroy>
class Descriptor {
 public:
  Descriptor() {
    if (kCreate(&value_) != CUDNN_STATUS_SUCCESS) value_ = nullptr;
  }
  Descriptor(const Descriptor&) = delete;
  ~Descriptor() {
    if (value_ != nullptr) kDestroy(value_);
  }
  T get() const { return value_; }

 private:
  T value_ = nullptr;
};
using TensorDesc = Descriptor<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor>;
using FilterDesc = Descriptor<cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor>;
using ConvolutionDesc =
    Descriptor<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor, cudnnDestroyConvolutionDescriptor>;

int Int(int64_t x) { return static_cast<int>(x); }

// How products are made: the type of all tensors that the library sees, and the most that it may make of them: nothing
// less than fp32, tensor cores, or TF32.
struct Way {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  cudnnMathType_t math = CUDNN_FMA_MATH;
  bool widens = false;  // what is not f32 has a copy that is
};
Way WayOf(const KernelArgs& args) {
  if (!IsNarrow(args.in[0].dtype))
    return {CUDNN_DATA_FLOAT, args.attrs->Bool("tf32") ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH};
  if (!IsNarrow(args.out[0].dtype)) return {CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH, true};
  const bool is_bf16 = args.out[0].dtype == DType::kBFloat16;
  return {is_bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF, CUDNN_TENSOR_OP_MATH, false};
}

// x being the convolution's input, k its kernel, y its output, in all three ops.
struct Geometry {
  TensorDesc x, y;
  FilterDesc k;
  ConvolutionDesc convolution;

  bool Set(const AttrMap& attrs, const Way& way, const TensorArg& x_arg, const TensorArg& k_arg,
           const TensorArg& y_arg) {
    const int stride = Int(attrs.Int("stride", 1)), padding = Int(attrs.Int("padding"));
    const int dilation = Int(attrs.Int("dilation", 1)), groups = Int(x_arg.dims[1] / k_arg.dims[1]);
    return SetTensor(x, way.type, x_arg) && SetTensor(y, way.type, y_arg) &&
           cudnnSetFilter4dDescriptor(k.get(), way.type, CUDNN_TENSOR_NCHW, Int(k_arg.dims[0]), Int(k_arg.dims[1]),
                                      Int(k_arg.dims[2]), Int(k_arg.dims[3])) == CUDNN_STATUS_SUCCESS &&
           cudnnSetConvolution2dDescriptor(convolution.get(), padding, padding, stride, stride, dilation, dilation,
                                           CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT) == CUDNN_STATUS_SUCCESS &&
           cudnnSetConvolutionGroupCount(convolution.get(), groups) == CUDNN_STATUS_SUCCESS && SetMath(way.math);
  }
  bool SetMath(cudnnMathType_t math) const {
    return cudnnSetConvolutionMathType(convolution.get(), math) == CUDNN_STATUS_SUCCESS;
  }
  static bool SetTensor(const TensorDesc& desc, cudnnDataType_t type, const TensorArg& x) {
    return cudnnSetTensor4dDescriptor(desc.get(), CUDNN_TENSOR_NCHW, type, Int(x.dims[0]), Int(x.dims[1]),
                                      Int(x.dims[2]), Int(x.dims[3])) == CUDNN_STATUS_SUCCESS;
  }
};

// What the three ops differ in: the roles of in[0], in[1], out[0], the library's functions, and which of its algorithms
// multiply the operands as they are.
struct Forward {
  static constexpr const char* kName = "conv2d";
  using Perf = cudnnConvolutionFwdAlgoPerf_t;
  static bool Set(Geometry& g, const Way& way, const KernelArgs& a) {
    return g.Set(*a.attrs, way, a.in[0], a.in[1], a.out[0]);
  }
  static bool MultipliesOperands(cudnnConvolutionFwdAlgo_t algo) {
    return algo == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM || algo == CUDNN_CONVOLUTION_FWD_ALGO_GEMM ||
           algo == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM || algo == CUDNN_CONVOLUTION_FWD_ALGO_DIRECT;
  }
  static cudnnStatus_t Choose(cudnnHandle_t handle, const Geometry& g, int wanted, int* found, Perf* perfs) {
    return cudnnGetConvolutionForwardAlgorithm_v7(handle, g.x.get(), g.k.get(), g.convolution.get(), g.y.get(), wanted,
                                                  found, perfs);
  }
  static cudnnStatus_t Run(cudnnHandle_t handle, const Geometry& g, const Perf& perf, const KernelArgs& a) {
    const float one = 1, zero = 0;
    return cudnnConvolutionForward(handle, &one, g.x.get(), a.in[0].data, g.k.get(), a.in[1].data, g.convolution.get(),
                                   perf.algo, a.workspace, perf.memory, &zero, g.y.get(), a.out[0].data);
  }
};
struct Dgrad {
  static constexpr const char* kName = "conv2d_dgrad";
  using Perf = cudnnConvolutionBwdDataAlgoPerf_t;
  static bool Set(Geometry& g, const Way& way, const KernelArgs& a) {
    return g.Set(*a.attrs, way, a.out[0], a.in[1], a.in[0]);
  }
  static bool MultipliesOperands(cudnnConvolutionBwdDataAlgo_t algo) {
    return algo == CUDNN_CONVOLUTION_BWD_DATA_ALGO_0 || algo == CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
  }
  static cudnnStatus_t Choose(cudnnHandle_t handle, const Geometry& g, int wanted, int* found, Perf* perfs) {
    return cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, g.k.get(), g.y.get(), g.convolution.get(), g.x.get(),
                                                       wanted, found, perfs);
  }
  static cudnnStatus_t Run(cudnnHandle_t handle, const Geometry& g, const Perf& perf, const KernelArgs& a) {
    const float one = 1, zero = 0;
    return cudnnConvolutionBackwardData(handle, &one, g.k.get(), a.in[1].data, g.y.get(), a.in[0].data,
                                        g.convolution.get(), perf.algo, a.workspace, perf.memory, &zero, g.x.get(),
                                        a.out[0].data);
  }
};
struct Wgrad {
  static constexpr const char* kName = "conv2d_wgrad";
  using Perf = cudnnConvolutionBwdFilterAlgoPerf_t;
  static bool Set(Geometry& g, const Way& way, const KernelArgs& a) {
    return g.Set(*a.attrs, way, a.in[0], a.out[0], a.in[1]);
  }
  static bool MultipliesOperands(cudnnConvolutionBwdFilterAlgo_t algo) {
    return algo == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0 || algo == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1 ||
           algo == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3;
  }
  static cudnnStatus_t Choose(cudnnHandle_t handle, const Geometry& g, int wanted, int* found, Perf* perfs) {
    return cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, g.x.get(), g.y.get(), g.convolution.get(), g.k.get(),
                                                         wanted, found, perfs);
  }
  static cudnnStatus_t Run(cudnnHandle_t handle, const Geometry& g, const Perf& perf, const KernelArgs& a) {
    const float one = 1, zero = 0;
    return cudnnConvolutionBackwardFilter(handle, &one, g.x.get(), a.in[0].data, g.y.get(), a.in[1].data,
                                          g.convolution.get(), perf.algo, a.workspace, perf.memory, &zero, g.k.get(),
                                          a.out[0].data);
  }
};

template <typename Op>
struct Job {
  Way way;
  Geometry geometry;
  typename Op::Perf perf = {};
};

bool IsEmpty(const KernelArgs& args) {
  return args.in[0].count == 0 || args.in[1].count == 0 || args.out[0].count == 0;
}

// Whether the algorithm is as precise as the file says.
template <typename Op>
bool IsPrecise(const Way& way, const typename Op::Perf& perf) {
  if (perf.mathType == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION) return false;  // to f16
  if (way.math != CUDNN_FMA_MATH) return Op::MultipliesOperands(perf.algo);
  // The convolution's own math type rules out TF32; an algorithm that is nothing without tensor cores would then fail.
  return perf.mathType == CUDNN_FMA_MATH || perf.mathType == CUDNN_DEFAULT_MATH;
}

// All of it, as files of algorithms name it: "cudnn 91900 conv2d f32 fma 8x3x32x32 16x3x3x3 8x16x32x32 stride 1 padding
// 1".
template <typename Op>
std::string NameOf(const KernelArgs& args, const Way& way) {
  std::ostringstream name;
  name << "cudnn " << cudnnGetVersion() << " " << Op::kName << " "
       << (way.type == CUDNN_DATA_FLOAT      ? "f32"
           : way.type == CUDNN_DATA_BFLOAT16 ? "bf16"
                                             : "f16")
       << (way.math == CUDNN_FMA_MATH ? " fma" : " tensor");
  for (const TensorArg& x : {args.in[0], args.in[1], args.out[0]}) {
    for (int i = 0; i < x.rank; ++i) name << (i == 0 ? " " : "x") << x.dims[i];
  }
  name << " stride " << args.attrs->Int("stride", 1) << " padding " << args.attrs->Int("padding");
  const int64_t dilation = args.attrs->Int("dilation", 1);
  if (dilation != 1) name << " dilation " << dilation;
  return name.str();
}

size_t LibraryBytes(const Way& way, const TensorArg& x) {
  return static_cast<size_t>(x.count) * (way.type == CUDNN_DATA_FLOAT ? sizeof(float) : sizeof(uint16_t));
}

// Those that may be taken, best first.
template <typename Op>
std::vector<typename Op::Perf> Candidates(const Job<Op>& job) {
  constexpr int kAlgorithms = 16;  // more than any of the three ops has
  typename Op::Perf perfs[kAlgorithms];
  int found = 0;
  if (Op::Choose(ThreadDnnHandle(), job.geometry, kAlgorithms, &found, perfs) != CUDNN_STATUS_SUCCESS) return {};
  std::vector<typename Op::Perf> candidates;
  for (int i = 0; i < found; ++i) {
    if (perfs[i].status != CUDNN_STATUS_SUCCESS || perfs[i].determinism != CUDNN_DETERMINISTIC) continue;
    if (IsPrecise<Op>(job.way, perfs[i])) candidates.push_back(perfs[i]);
  }
  return candidates;
}

template <typename Op>
bool Take(const typename Op::Perf& perf, Job<Op>& job) {
  job.perf = perf;
  return job.way.math == CUDNN_FMA_MATH || job.geometry.SetMath(perf.mathType);
}

// The fastest on memory of its own; none, with the reason, if there is no such memory or one fails.
template <typename Op>
const char* Measure(const KernelArgs& args, const std::vector<typename Op::Perf>& candidates, Job<Op>& job,
                    size_t* fastest) {
  size_t workspace = 1;
  for (const typename Op::Perf& perf : candidates) workspace = std::max(workspace, perf.memory);
  Trial trial({LibraryBytes(job.way, args.in[0]), LibraryBytes(job.way, args.in[1]), LibraryBytes(job.way, args.out[0]),
               workspace});
  double least = INFINITY;
  for (size_t i = 0; i < candidates.size() && trial.error == nullptr; ++i) {
    const double seconds = trial.Seconds([&](cudaStream_t stream, const std::vector<void*>& memory) -> const char* {
      TensorArg in[] = {args.in[0], args.in[1]}, out[] = {args.out[0]};
      in[0].data = memory[0], in[1].data = memory[1], out[0].data = memory[2];
      KernelArgs run = args;
      run.in = in, run.out = out, run.workspace = memory[3];
      if (!Take<Op>(candidates[i], job)) return "cuDNN refuses a type of mathematics";
      cudnnStatus_t status = cudnnSetStream(ThreadDnnHandle(), stream);
      if (status == CUDNN_STATUS_SUCCESS) status = Op::Run(ThreadDnnHandle(), job.geometry, job.perf, run);
      return status == CUDNN_STATUS_SUCCESS ? nullptr : cudnnGetErrorString(status);
    });
    if (seconds < least) *fastest = i;
    least = std::min(least, seconds);
  }
  return trial.error;
}

// Which of the candidates, of which there are some.
template <typename Op>
size_t Choose(const KernelArgs& args, const std::vector<typename Op::Perf>& candidates, ProductAlgorithms& algorithms,
              Job<Op>& job) {
  const std::string name = NameOf<Op>(args, job.way);
  if (const std::optional<cublasLtMatmulAlgo_t> known = algorithms.Find(name)) {
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (static_cast<uint64_t>(candidates[i].algo) == known->data[0] &&
          static_cast<uint64_t>(candidates[i].mathType) == known->data[1]) {
        return i;
      }
    }
    std::fprintf(stderr, "cuDNN does not offer the algorithm that ONEFLOW_CUDA_PRODUCTS has for '%s'\n", name.c_str());
    return 0;
  }
  if (!algorithms.measures()) return 0;
  size_t fastest = 0;
  if (const char* why = Measure<Op>(args, candidates, job, &fastest)) {
    std::fprintf(stderr, "'%s' is not measured: %s\n", name.c_str(), why);
    return 0;
  }
  cublasLtMatmulAlgo_t row = {};  // of cuDNN's two numbers
  row.data[0] = static_cast<uint64_t>(candidates[fastest].algo);
  row.data[1] = static_cast<uint64_t>(candidates[fastest].mathType);
  algorithms.Add(name, row);
  return fastest;
}

// Null if the library has no such algorithm for these shapes.
template <typename Op>
std::shared_ptr<Job<Op>> MakeJob(const KernelArgs& args, const Way& way, ProductAlgorithms& algorithms) {
  auto job = std::make_shared<Job<Op>>();
  job->way = way;
  if (ThreadDnnHandle() == nullptr || !Op::Set(job->geometry, way, args)) return nullptr;
  const std::vector<typename Op::Perf> candidates = Candidates<Op>(*job);
  if (candidates.empty() || !Take<Op>(candidates[Choose<Op>(args, candidates, algorithms, *job)], *job)) return nullptr;
  return job;
}

template <typename Op>
std::shared_ptr<Job<Op>> MakeJob(const KernelArgs& args,
                                 ProductAlgorithms& algorithms = ProductAlgorithms::OfProcess()) {
  if (IsEmpty(args)) return std::make_shared<Job<Op>>();
  std::shared_ptr<Job<Op>> job = MakeJob<Op>(args, WayOf(args), algorithms);
  if (job != nullptr) return job;
  if (IsNarrow(args.out[0].dtype)) {
    return MakeJob<Op>(args, {CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH, true}, algorithms);
  }
  return args.attrs->Bool("tf32") ? MakeJob<Op>(args, {}, algorithms) : nullptr;  // no algorithm for TF32
}

template <typename Op>
std::shared_ptr<void> Prepare(const KernelArgs& args) {
  return MakeJob<Op>(args);
}

// Of what the library sees as f32 and is not.
size_t WideBytes(const TensorArg& x) {
  constexpr size_t kAlignment = 256;  // as device memory has it
  if (!IsNarrow(x.dtype)) return 0;
  return (static_cast<size_t>(x.count) * sizeof(float) + kAlignment - 1) / kAlignment * kAlignment;
}

// Chooses once more: it may be asked before, or without, preparing.
template <typename Op>
size_t Workspace(const KernelArgs& args) {
  const std::shared_ptr<Job<Op>> job = MakeJob<Op>(args);
  if (job == nullptr) return 0;
  const size_t wide = WideBytes(args.in[0]) + WideBytes(args.in[1]) + WideBytes(args.out[0]);
  return job->perf.memory + (job->way.widens ? wide : 0);
}

// As f32 at the front of the workspace, if it is not; its memory is not workspace any more.
TensorArg TakeWide(const TensorArg& x, KernelArgs& args) {
  if (!IsNarrow(x.dtype)) return x;
  TensorArg wide = x;
  wide.dtype = DType::kFloat32;
  wide.data = args.workspace;
  args.workspace = static_cast<char*>(args.workspace) + WideBytes(x);
  return wide;
}

template <typename Op>
const char* Convolve(const KernelArgs& args) {
  const cudnnHandle_t handle = ThreadDnnHandle();
  if (handle == nullptr) return "cudnnCreate failed";
  const Job<Op>& job = *static_cast<const Job<Op>*>(args.state);
  cudnnStatus_t status = cudnnSetStream(handle, static_cast<cudaStream_t>(args.stream));
  if (status == CUDNN_STATUS_SUCCESS) status = Op::Run(handle, job.geometry, job.perf, args);
  return status == CUDNN_STATUS_SUCCESS ? nullptr : cudnnGetErrorString(status);
}

template <typename Op>
const char* ConvolveWide(const KernelArgs& args) {
  const cudaStream_t stream = static_cast<cudaStream_t>(args.stream);
  KernelArgs library = args;
  const TensorArg in[] = {TakeWide(args.in[0], library), TakeWide(args.in[1], library)};
  const TensorArg out[] = {TakeWide(args.out[0], library)};
  library.in = in;
  library.out = out;
  for (int i = 0; i < 2; ++i) {
    if (const char* const error = LaunchCast(args.in[i], in[i], stream)) return error;
  }
  const char* const error = Convolve<Op>(library);
  return error != nullptr || out[0].data == args.out[0].data ? error : LaunchCast(out[0], args.out[0], stream);
}

template <typename Op>
const char* Run(const KernelArgs& args) {
  if (IsEmpty(args)) {  // no channels or no samples: an empty sum
    if (args.out[0].count == 0) return nullptr;
    const size_t num_bytes = static_cast<size_t>(args.out[0].count) * SizeOf(args.out[0].dtype);
    const cudaError_t error = cudaMemsetAsync(args.out[0].data, 0, num_bytes, static_cast<cudaStream_t>(args.stream));
    return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
  }
  return static_cast<const Job<Op>*>(args.state)->way.widens ? ConvolveWide<Op>(args) : Convolve<Op>(args);
}

}  // namespace

std::shared_ptr<void> PrepareConv2d(const KernelArgs& args, ProductAlgorithms& algorithms) {
  return MakeJob<Forward>(args, algorithms);
}
int Conv2dAlgorithm(const void* state) { return static_cast<int>(static_cast<const Job<Forward>*>(state)->perf.algo); }

KernelList Conv2dKernels() {
  KernelList kernels;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    kernels.push_back({"conv2d", dtype, Run<Forward>, Workspace<Forward>, Prepare<Forward>});
    kernels.push_back({"conv2d_dgrad", dtype, Run<Dgrad>, Workspace<Dgrad>, Prepare<Dgrad>});
    kernels.push_back({"conv2d_wgrad", dtype, Run<Wgrad>, Workspace<Wgrad>, Prepare<Wgrad>});
  }
  return kernels;
}

}  // namespace oneflow::cuda
