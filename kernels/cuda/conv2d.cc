// conv2d and its two gradients on cuDNN. The algorithm is the library's first choice among those that are deterministic
// and multiply in fp32 (no TF32), so that two runs are bitwise equal and a GPU agrees with a CPU.
#include <cuda_runtime.h>
#include <cudnn.h>

#include <memory>

#include "kernels/cuda/handles.h"
#include "kernels/cuda/kernels.h"

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

// x being the convolution's input, k its kernel, y its output, in all three ops.
struct Geometry {
  TensorDesc x, y;
  FilterDesc k;
  ConvolutionDesc convolution;

  bool Set(const AttrMap& attrs, const TensorArg& x_arg, const TensorArg& k_arg, const TensorArg& y_arg) {
    const int stride = Int(attrs.Int("stride", 1)), padding = Int(attrs.Int("padding"));
    return SetTensor(x, x_arg) && SetTensor(y, y_arg) &&
           cudnnSetFilter4dDescriptor(k.get(), CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, Int(k_arg.dims[0]),
                                      Int(k_arg.dims[1]), Int(k_arg.dims[2]),
                                      Int(k_arg.dims[3])) == CUDNN_STATUS_SUCCESS &&
           cudnnSetConvolution2dDescriptor(convolution.get(), padding, padding, stride, stride, 1, 1,
                                           CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT) == CUDNN_STATUS_SUCCESS &&
           cudnnSetConvolutionMathType(convolution.get(), CUDNN_FMA_MATH) == CUDNN_STATUS_SUCCESS;
  }
  static bool SetTensor(const TensorDesc& desc, const TensorArg& x) {
    return cudnnSetTensor4dDescriptor(desc.get(), CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, Int(x.dims[0]), Int(x.dims[1]),
                                      Int(x.dims[2]), Int(x.dims[3])) == CUDNN_STATUS_SUCCESS;
  }
};

// What the three ops differ in: the roles of in[0], in[1], out[0], and the library's functions.
struct Forward {
  using Perf = cudnnConvolutionFwdAlgoPerf_t;
  static bool Set(Geometry& g, const KernelArgs& a) { return g.Set(*a.attrs, a.in[0], a.in[1], a.out[0]); }
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
  using Perf = cudnnConvolutionBwdDataAlgoPerf_t;
  static bool Set(Geometry& g, const KernelArgs& a) { return g.Set(*a.attrs, a.out[0], a.in[1], a.in[0]); }
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
  using Perf = cudnnConvolutionBwdFilterAlgoPerf_t;
  static bool Set(Geometry& g, const KernelArgs& a) { return g.Set(*a.attrs, a.in[0], a.out[0], a.in[1]); }
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
  Geometry geometry;
  typename Op::Perf perf = {};
};

bool IsEmpty(const KernelArgs& args) {
  return args.in[0].count == 0 || args.in[1].count == 0 || args.out[0].count == 0;
}

// Null if the library has no deterministic fp32 algorithm for these shapes.
template <typename Op>
std::shared_ptr<Job<Op>> MakeJob(const KernelArgs& args) {
  constexpr int kAlgorithms = 16;  // more than any of the three ops has
  auto job = std::make_shared<Job<Op>>();
  if (IsEmpty(args)) return job;
  const cudnnHandle_t handle = ThreadDnnHandle();
  typename Op::Perf perfs[kAlgorithms];
  int found = 0;
  if (handle == nullptr || !Op::Set(job->geometry, args) ||
      Op::Choose(handle, job->geometry, kAlgorithms, &found, perfs) != CUDNN_STATUS_SUCCESS) {
    return nullptr;
  }
  for (int i = 0; i < found; ++i) {  // best first
    // The convolution's own math type rules out TF32; an algorithm that is nothing without tensor cores would then
    // fail.
    const bool has_fp32 = perfs[i].mathType == CUDNN_FMA_MATH || perfs[i].mathType == CUDNN_DEFAULT_MATH;
    if (perfs[i].status != CUDNN_STATUS_SUCCESS || perfs[i].determinism != CUDNN_DETERMINISTIC || !has_fp32) continue;
    job->perf = perfs[i];
    return job;
  }
  return nullptr;
}

template <typename Op>
std::shared_ptr<void> Prepare(const KernelArgs& args) {
  return MakeJob<Op>(args);
}

// Chooses once more: it may be asked before, or without, preparing.
template <typename Op>
size_t Workspace(const KernelArgs& args) {
  const std::shared_ptr<Job<Op>> job = MakeJob<Op>(args);
  return job == nullptr ? 0 : job->perf.memory;
}

template <typename Op>
const char* Run(const KernelArgs& args) {
  const cudaStream_t stream = static_cast<cudaStream_t>(args.stream);
  if (IsEmpty(args)) {  // no channels or no samples: an empty sum
    if (args.out[0].count == 0) return nullptr;
    const size_t num_bytes = static_cast<size_t>(args.out[0].count) * sizeof(float);
    const cudaError_t error = cudaMemsetAsync(args.out[0].data, 0, num_bytes, stream);
    return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
  }
  const cudnnHandle_t handle = ThreadDnnHandle();
  if (handle == nullptr) return "cudnnCreate failed";
  const Job<Op>& job = *static_cast<const Job<Op>*>(args.state);
  cudnnStatus_t status = cudnnSetStream(handle, stream);
  if (status == CUDNN_STATUS_SUCCESS) status = Op::Run(handle, job.geometry, job.perf, args);
  return status == CUDNN_STATUS_SUCCESS ? nullptr : cudnnGetErrorString(status);
}

}  // namespace

KernelList Conv2dKernels() {
  constexpr DType kF32 = DType::kFloat32;
  return {{"conv2d", kF32, Run<Forward>, Workspace<Forward>, Prepare<Forward>},
          {"conv2d_dgrad", kF32, Run<Dgrad>, Workspace<Dgrad>, Prepare<Dgrad>},
          {"conv2d_wgrad", kF32, Run<Wgrad>, Workspace<Wgrad>, Prepare<Wgrad>}};
}

}  // namespace oneflow::cuda
