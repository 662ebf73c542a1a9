// cuDNN on a device in software (include/cudnn.h). Descriptors are read when a convolution is enqueued; what runs on
// the stream has copies of all it needs.
//
// For an odd number of channels of 16-bit floats there is no algorithm: who calls has to have another way.
#include <cudnn.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdint>
#include <new>
#include <span>

#include "test/support/cuda/cudnn_convolution.h"
#include "test/support/cuda/memory.h"
#include "test/support/cuda/software_device.h"

struct cudnnContext {
  int device;
  cudaStream_t stream = nullptr;
};

namespace {

using oneflow::software_cuda::Enqueue;
using oneflow::software_cuda::HoldOn;
using oneflow::software_cuda::kCudnnBytes;
using oneflow::software_cuda::LetGoOn;
using oneflow::software_cuda::cudnn::Operation;
using oneflow::software_cuda::cudnn::Problem;
using oneflow::software_cuda::cudnn::Run;
using oneflow::software_cuda::cudnn::Shape;
using oneflow::software_cuda::cudnn::Work;

// --- descriptors ---

template <typename T>
cudnnStatus_t Create(T** result, const T& value = {}) {
  if (result == nullptr) return CUDNN_STATUS_BAD_PARAM;
  *result = new (std::nothrow) T(value);
  return *result == nullptr ? CUDNN_STATUS_INTERNAL_ERROR : CUDNN_STATUS_SUCCESS;
}

template <typename T>
cudnnStatus_t Destroy(T* x) {
  delete x;
  return CUDNN_STATUS_SUCCESS;
}

bool IsHalf(cudnnDataType_t x) { return x == CUDNN_DATA_HALF || x == CUDNN_DATA_BFLOAT16; }
bool IsFloating(cudnnDataType_t x) { return x == CUDNN_DATA_FLOAT || x == CUDNN_DATA_DOUBLE || IsHalf(x); }

cudnnStatus_t SetShape(Shape* shape, cudnnTensorFormat_t format, cudnnDataType_t type, int n, int c, int h, int w) {
  const bool valid = shape != nullptr && (format == CUDNN_TENSOR_NCHW || format == CUDNN_TENSOR_NHWC) &&
                     IsFloating(type) && n > 0 && c > 0 && h > 0 && w > 0;
  if (!valid) return CUDNN_STATUS_BAD_PARAM;
  shape->valid = true;
  shape->format = format;
  shape->type = type;
  shape->n = n, shape->c = c, shape->h = h, shape->w = w;
  return CUDNN_STATUS_SUCCESS;
}

// --- what is asked for ---

// Positions of the window along one dimension; not positive if it does not fit.
int64_t Positions(int64_t in, int64_t window, int64_t pad, int64_t stride, int64_t dilation) {
  const int64_t room = in + 2 * pad - ((window - 1) * dilation + 1);
  return room < 0 ? 0 : room / stride + 1;
}

bool ShapesAgree(const Problem& p) {
  const cudnnConvolutionStruct& v = p.convolution;
  return p.x.c == p.w.c * v.groups && p.w.n % v.groups == 0 && p.y.n == p.x.n && p.y.c == p.w.n &&
         p.y.h == Positions(p.x.h, p.w.h, v.pad_h, v.stride_h, v.dilation_h) &&
         p.y.w == Positions(p.x.w, p.w.w, v.pad_w, v.stride_w, v.dilation_w);
}

// BAD_PARAM where something is missing or does not fit together, NOT_SUPPORTED for what this device does not compute.
cudnnStatus_t MakeProblem(Operation operation, const Shape* x, const Shape* w, const Shape* y,
                          const cudnnConvolutionStruct* convolution, Problem* result) {
  if (x == nullptr || w == nullptr || y == nullptr || convolution == nullptr) return CUDNN_STATUS_BAD_PARAM;
  if (!x->valid || !w->valid || !y->valid || !convolution->valid) return CUDNN_STATUS_BAD_PARAM;
  *result = {operation, *x, *w, *y, *convolution};
  if (!ShapesAgree(*result)) return CUDNN_STATUS_BAD_PARAM;
  for (const Shape* shape : {x, w, y}) {
    if (shape->format != CUDNN_TENSOR_NCHW || shape->type != x->type) return CUDNN_STATUS_NOT_SUPPORTED;
  }
  if (x->type == CUDNN_DATA_DOUBLE) return CUDNN_STATUS_NOT_SUPPORTED;
  if (IsHalf(x->type) && (x->c % 2 != 0 || y->c % 2 != 0)) return CUDNN_STATUS_NOT_SUPPORTED;
  const bool supported = convolution->mode == CUDNN_CROSS_CORRELATION && convolution->compute == CUDNN_DATA_FLOAT;
  return supported ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
}

cudnnStatus_t CheckHandle(cudnnHandle_t handle) {
  if (handle == nullptr) return CUDNN_STATUS_BAD_PARAM;
  int device = -1;
  const bool current = cudaGetDevice(&device) == cudaSuccess && device == handle->device;
  return current ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

// --- algorithms ---

struct Algorithm {
  int id;
  cudnnStatus_t status;
  cudnnDeterminism_t determinism;
  cudnnMathType_t math;
  size_t workspace_planes;  // of the result
  bool transforms = false;  // multiplies something else than the operands
};

constexpr cudnnStatus_t kWorks = CUDNN_STATUS_SUCCESS, kFails = CUDNN_STATUS_NOT_SUPPORTED;

// Best first, and each of the first ones wrong for who needs the same fp32 bits in every run, in one way alone.
constexpr Algorithm kForward[] = {
    {CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED, kWorks, CUDNN_DETERMINISTIC, CUDNN_TENSOR_OP_MATH, 4, true},
    {CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING, kWorks, CUDNN_NON_DETERMINISTIC, CUDNN_FMA_MATH, 3},
    {CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD, kFails, CUDNN_DETERMINISTIC, CUDNN_FMA_MATH, 0},
    {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, kWorks, CUDNN_DETERMINISTIC, CUDNN_FMA_MATH, 1},
    {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, kWorks, CUDNN_DETERMINISTIC, CUDNN_DEFAULT_MATH, 0},
    {CUDNN_CONVOLUTION_FWD_ALGO_GEMM, kWorks, CUDNN_DETERMINISTIC, CUDNN_FMA_MATH, 2},
    {CUDNN_CONVOLUTION_FWD_ALGO_FFT, kFails, CUDNN_DETERMINISTIC, CUDNN_FMA_MATH, 0},
    {CUDNN_CONVOLUTION_FWD_ALGO_DIRECT, kFails, CUDNN_DETERMINISTIC, CUDNN_DEFAULT_MATH, 0}};
constexpr Algorithm kBackwardData[] = {
    {CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, kWorks, CUDNN_NON_DETERMINISTIC, CUDNN_FMA_MATH, 0},
    {CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD, kFails, CUDNN_DETERMINISTIC, CUDNN_FMA_MATH, 0},
    {CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED, kWorks, CUDNN_DETERMINISTIC, CUDNN_TENSOR_OP_MATH, 4, true},
    {CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, kWorks, CUDNN_DETERMINISTIC, CUDNN_FMA_MATH, 1},
    {CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING, kWorks, CUDNN_DETERMINISTIC, CUDNN_DEFAULT_MATH, 3},
    {CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT, kFails, CUDNN_DETERMINISTIC, CUDNN_DEFAULT_MATH, 0}};
constexpr Algorithm kBackwardFilter[] = {
    {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, kWorks, CUDNN_NON_DETERMINISTIC, CUDNN_FMA_MATH, 0},
    {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED, kWorks, CUDNN_DETERMINISTIC,
     CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION, 4, true},
    {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT, kFails, CUDNN_DETERMINISTIC, CUDNN_DEFAULT_MATH, 0},
    {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3, kWorks, CUDNN_NON_DETERMINISTIC, CUDNN_DEFAULT_MATH, 1},
    {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, kWorks, CUDNN_DETERMINISTIC, CUDNN_FMA_MATH, 2},
    {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING, kWorks, CUDNN_DETERMINISTIC, CUDNN_DEFAULT_MATH, 3}};

std::span<const Algorithm> Algorithms(Operation operation) {
  if (operation == Operation::kForward) return kForward;
  if (operation == Operation::kBackwardData) return kBackwardData;
  return kBackwardFilter;
}

template <typename Perf>
cudnnStatus_t GetAlgorithms(cudnnHandle_t handle, Operation operation, const Shape* x, const Shape* w, const Shape* y,
                            const cudnnConvolutionStruct* convolution, int wanted, int* found, Perf* perfs) {
  if (wanted < 1 || found == nullptr || perfs == nullptr) return CUDNN_STATUS_BAD_PARAM;
  Problem p;
  cudnnStatus_t status = CheckHandle(handle);
  if (status == CUDNN_STATUS_SUCCESS) status = MakeProblem(operation, x, w, y, convolution, &p);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  const std::span<const Algorithm> all = Algorithms(operation);
  *found = std::min(wanted, static_cast<int>(all.size()));
  for (int i = 0; i < *found; ++i) {
    perfs[i] = {};
    perfs[i].algo = static_cast<decltype(perfs[i].algo)>(all[i].id);
    perfs[i].status = all[i].status;
    perfs[i].time = all[i].status == kWorks ? static_cast<float>(i + 1) : -1;
    perfs[i].memory = all[i].workspace_planes * p.plane_bytes();
    perfs[i].determinism = all[i].determinism;
    perfs[i].mathType = all[i].math;
    const bool on_tensor_cores = !all[i].transforms && convolution->math != CUDNN_FMA_MATH;
    if (all[i].math == CUDNN_FMA_MATH && on_tensor_cores) perfs[i].mathType = CUDNN_TENSOR_OP_MATH;
  }
  return CUDNN_STATUS_SUCCESS;
}

// --- calls ---

// The operands of a call. Of the three tensors, the result is not among `x`, `w` and `y`.
struct Call {
  const char* name;
  const void *alpha, *beta;
  const void *x, *w, *y;
  void* result;
  int algo;
  void* workspace;
  size_t workspace_bytes;
};

bool IsMissing(const void* p) { return p == nullptr || reinterpret_cast<uintptr_t>(p) % alignof(float) != 0; }

bool PointersAreValid(const Call& call, Operation operation) {
  return call.alpha != nullptr && call.beta != nullptr && !IsMissing(call.result) &&
         (operation == Operation::kBackwardData || !IsMissing(call.x)) &&
         (operation == Operation::kBackwardFilter || !IsMissing(call.w)) &&
         (operation == Operation::kForward || !IsMissing(call.y));
}

// BAD_PARAM if there is no such algorithm, or less workspace than it asks for; NOT_SUPPORTED if it does not work for
// these shapes, or is nothing without the tensor cores that the convolution forbids.
cudnnStatus_t FindAlgorithm(const Problem& p, const Call& call, Algorithm* result) {
  const std::span<const Algorithm> all = Algorithms(p.operation);
  const auto found = std::find_if(all.begin(), all.end(), [&](const Algorithm& x) { return x.id == call.algo; });
  if (found == all.end()) return CUDNN_STATUS_BAD_PARAM;
  const bool tensor_cores = found->math != CUDNN_FMA_MATH && found->math != CUDNN_DEFAULT_MATH;
  if (found->status != kWorks || (tensor_cores && p.convolution.math == CUDNN_FMA_MATH)) {
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  *result = *found;
  const size_t needed = found->workspace_planes * p.plane_bytes();
  const bool enough = needed == 0 || (call.workspace_bytes >= needed && !IsMissing(call.workspace));
  return enough ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

// Where a non-deterministic algorithm begins its sum: as good as chance, but the same in every run of a program that
// calls from one thread.
int64_t NextFirst() {
  static std::atomic<int64_t> runs = 0;
  return ++runs;
}

cudnnStatus_t Convolve(cudnnHandle_t handle, Operation operation, const Shape* x, const Shape* w, const Shape* y,
                       const cudnnConvolutionStruct* convolution, const Call& call) {
  Problem p;
  Algorithm algorithm;
  cudnnStatus_t status = CheckHandle(handle);
  if (status == CUDNN_STATUS_SUCCESS) status = MakeProblem(operation, x, w, y, convolution, &p);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (!PointersAreValid(call, operation)) return CUDNN_STATUS_BAD_PARAM;
  status = FindAlgorithm(p, call, &algorithm);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  Work work = {.p = p,
               .alpha = *static_cast<const float*>(call.alpha),
               .beta = *static_cast<const float*>(call.beta),
               .x = call.x,
               .w = call.w,
               .y = call.y,
               .result = call.result,
               .workspace = algorithm.workspace_planes == 0 ? nullptr : static_cast<float*>(call.workspace),
               .workspace_bytes = algorithm.workspace_planes * p.plane_bytes(),
               .first = algorithm.determinism == CUDNN_DETERMINISTIC ? 0 : NextFirst(),
               .rounds = algorithm.transforms,
               .algorithm = algorithm.id};
  const cudaError_t error = Enqueue(handle->stream, call.name, [work] { Run(work); });
  return error == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

}  // namespace

extern "C" {

size_t cudnnGetVersion() { return 91'900; }

const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_SUCCESS:
      return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_NOT_INITIALIZED:
      return "CUDNN_STATUS_NOT_INITIALIZED";
    case CUDNN_STATUS_BAD_PARAM:
      return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH:
      return "CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH";
    case CUDNN_STATUS_NOT_SUPPORTED:
      return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_INTERNAL_ERROR:
      return "CUDNN_STATUS_INTERNAL_ERROR";
    case CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED:
      return "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED";
    case CUDNN_STATUS_EXECUTION_FAILED:
      return "CUDNN_STATUS_EXECUTION_FAILED";
  }
  return "CUDNN_UNKNOWN_STATUS";
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  if (handle == nullptr) return CUDNN_STATUS_BAD_PARAM;
  int device = -1;
  if (cudaGetDevice(&device) != cudaSuccess) return CUDNN_STATUS_NOT_INITIALIZED;
  if (!HoldOn(device, kCudnnBytes)) return CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
  return Create(handle, {device});
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  if (handle != nullptr) LetGoOn(handle->device, kCudnnBytes);
  return Destroy(handle);
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  const cudnnStatus_t status = CheckHandle(handle);
  if (status == CUDNN_STATUS_EXECUTION_FAILED) return CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH;
  if (status == CUDNN_STATUS_SUCCESS) handle->stream = stream;
  return status;
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* desc) { return Create(desc); }

cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t desc) { return Destroy(desc); }

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t desc, cudnnTensorFormat_t format, cudnnDataType_t type,
                                         int n, int c, int h, int w) {
  Shape shape;
  const cudnnStatus_t status = SetShape(&shape, format, type, n, c, h, w);
  if (desc == nullptr || status != CUDNN_STATUS_SUCCESS) return CUDNN_STATUS_BAD_PARAM;
  // As the library has it, of tensors but not of filters.
  if (double{1} * n * c * h * w > INT_MAX) return CUDNN_STATUS_NOT_SUPPORTED;
  static_cast<Shape&>(*desc) = shape;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* desc) { return Create(desc); }

cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t desc) { return Destroy(desc); }

cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t desc, cudnnDataType_t type, cudnnTensorFormat_t format,
                                         int k, int c, int h, int w) {
  return SetShape(desc, format, type, k, c, h, w);
}

cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* desc) { return Create(desc); }

cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t desc) { return Destroy(desc); }

cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t desc, int pad_h, int pad_w, int stride_h,
                                              int stride_w, int dilation_h, int dilation_w, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute) {
  const bool valid = desc != nullptr && std::min(pad_h, pad_w) >= 0 && std::min(stride_h, stride_w) > 0 &&
                     std::min(dilation_h, dilation_w) > 0 &&
                     (mode == CUDNN_CONVOLUTION || mode == CUDNN_CROSS_CORRELATION) && IsFloating(compute);
  if (!valid) return CUDNN_STATUS_BAD_PARAM;
  *desc = {.valid = true,
           .pad_h = pad_h,
           .pad_w = pad_w,
           .stride_h = stride_h,
           .stride_w = stride_w,
           .dilation_h = dilation_h,
           .dilation_w = dilation_w,
           .groups = desc->groups,
           .mode = mode,
           .compute = compute,
           .math = desc->math};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t desc, int groups) {
  if (desc == nullptr || groups < 1) return CUDNN_STATUS_BAD_PARAM;
  desc->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t desc, cudnnMathType_t math) {
  if (desc == nullptr || math < CUDNN_DEFAULT_MATH || math > CUDNN_FMA_MATH) return CUDNN_STATUS_BAD_PARAM;
  desc->math = math;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t handle, const cudnnTensorDescriptor_t x,
                                                     const cudnnFilterDescriptor_t w,
                                                     const cudnnConvolutionDescriptor_t convolution,
                                                     const cudnnTensorDescriptor_t y, const int wanted, int* found,
                                                     cudnnConvolutionFwdAlgoPerf_t* perfs) {
  return GetAlgorithms(handle, Operation::kForward, x, w, y, convolution, wanted, found, perfs);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t handle, const cudnnFilterDescriptor_t w,
                                                          const cudnnTensorDescriptor_t dy,
                                                          const cudnnConvolutionDescriptor_t convolution,
                                                          const cudnnTensorDescriptor_t dx, const int wanted,
                                                          int* found, cudnnConvolutionBwdDataAlgoPerf_t* perfs) {
  return GetAlgorithms(handle, Operation::kBackwardData, dx, w, dy, convolution, wanted, found, perfs);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t handle, const cudnnTensorDescriptor_t x,
                                                            const cudnnTensorDescriptor_t dy,
                                                            const cudnnConvolutionDescriptor_t convolution,
                                                            const cudnnFilterDescriptor_t dw, const int wanted,
                                                            int* found, cudnnConvolutionBwdFilterAlgoPerf_t* perfs) {
  return GetAlgorithms(handle, Operation::kBackwardFilter, x, dw, dy, convolution, wanted, found, perfs);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha, const cudnnTensorDescriptor_t x_desc,
                                      const void* x, const cudnnFilterDescriptor_t w_desc, const void* w,
                                      const cudnnConvolutionDescriptor_t convolution, cudnnConvolutionFwdAlgo_t algo,
                                      void* workspace, size_t workspace_bytes, const void* beta,
                                      const cudnnTensorDescriptor_t y_desc, void* y) {
  return Convolve(handle, Operation::kForward, x_desc, w_desc, y_desc, convolution,
                  {__func__, alpha, beta, x, w, nullptr, y, algo, workspace, workspace_bytes});
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha,
                                           const cudnnFilterDescriptor_t w_desc, const void* w,
                                           const cudnnTensorDescriptor_t dy_desc, const void* dy,
                                           const cudnnConvolutionDescriptor_t convolution,
                                           cudnnConvolutionBwdDataAlgo_t algo, void* workspace, size_t workspace_bytes,
                                           const void* beta, const cudnnTensorDescriptor_t dx_desc, void* dx) {
  return Convolve(handle, Operation::kBackwardData, dx_desc, w_desc, dy_desc, convolution,
                  {__func__, alpha, beta, nullptr, w, dy, dx, algo, workspace, workspace_bytes});
}

cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha,
                                             const cudnnTensorDescriptor_t x_desc, const void* x,
                                             const cudnnTensorDescriptor_t dy_desc, const void* dy,
                                             const cudnnConvolutionDescriptor_t convolution,
                                             cudnnConvolutionBwdFilterAlgo_t algo, void* workspace,
                                             size_t workspace_bytes, const void* beta,
                                             const cudnnFilterDescriptor_t dw_desc, void* dw) {
  return Convolve(handle, Operation::kBackwardFilter, x_desc, dw_desc, dy_desc, convolution,
                  {__func__, alpha, beta, x, nullptr, dy, dw, algo, workspace, workspace_bytes});
}

}  // extern "C"
