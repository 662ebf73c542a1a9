// The part of the CUDA runtime that the engine calls, on a device in software (test/support/cuda/README.md). Names and
// meanings are NVIDIA's; what is declared here behaves as their documentation says, and what is not cannot be called.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <tuple>
#include <utility>

// --- Language ------------------------------------------------------------------------------------

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
// A block runs on one thread of the host. In a function the variable is static; behind `extern` it is declared only.
#define __shared__ thread_local

struct uint3 {
  unsigned x = 0, y = 0, z = 0;
};
struct dim3 {
  constexpr dim3(unsigned vx = 1, unsigned vy = 1, unsigned vz = 1) : x(vx), y(vy), z(vz) {}
  unsigned x, y, z;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

// --- Runtime -------------------------------------------------------------------------------------

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInvalidMemcpyDirection = 21,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorIllegalState = 401,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
  cudaErrorMisalignedAddress = 716,
  cudaErrorLaunchFailure = 719,
  cudaErrorNotSupported = 801,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
  cudaErrorStreamCaptureMerge = 902,
  cudaErrorStreamCaptureUnmatched = 903,
  cudaErrorStreamCaptureUnjoined = 904,
  cudaErrorStreamCaptureIsolation = 905,
  cudaErrorCapturedEvent = 907,
  cudaErrorStreamCaptureWrongThread = 908,
};

enum cudaMemcpyKind {
  cudaMemcpyHostToHost = 0,
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
  cudaMemcpyDefault = 4,
};

using cudaStream_t = struct CUstream_st*;
using cudaEvent_t = struct CUevent_st*;
using cudaGraph_t = struct CUgraph_st*;
using cudaGraphExec_t = struct CUgraphExec_st*;
using cudaGraphNode_t = struct CUgraphNode_st*;

constexpr unsigned cudaStreamDefault = 0, cudaStreamNonBlocking = 1;
constexpr unsigned cudaEventDefault = 0, cudaEventBlockingSync = 1, cudaEventDisableTiming = 2;
constexpr unsigned cudaHostAllocDefault = 0, cudaHostAllocPortable = 1;

enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal = 0,
  cudaStreamCaptureModeThreadLocal = 1,
  cudaStreamCaptureModeRelaxed = 2,
};
enum cudaStreamCaptureStatus {
  cudaStreamCaptureStatusNone = 0,
  cudaStreamCaptureStatusActive = 1,
  cudaStreamCaptureStatusInvalidated = 2,
};

enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
struct cudaFuncAttributes {
  size_t sharedSizeBytes = 0, constSizeBytes = 0, localSizeBytes = 0;
  int maxThreadsPerBlock = 0, numRegs = 0, ptxVersion = 0, binaryVersion = 0;
  int maxDynamicSharedSizeBytes = 0;
};
struct cudaLaunchAttribute;
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
  cudaLaunchAttribute* attrs = nullptr;
  unsigned numAttrs = 0;
};

extern "C" {
const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();

cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);
struct cudaDeviceProp {
  char name[256];
};
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaDeviceSynchronize();

cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void* data);
cudaError_t cudaFree(void* data);
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t stream);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority);
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest);
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end);

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status);
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags = 0);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable);
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream);
}

// --- Kernels -------------------------------------------------------------------------------------

namespace oneflow::software_cuda {

// A launch: the kernel, what calls it with its arguments, and those, which live as long as it runs.
struct Launch {
  const void* kernel;
  void (*call)(const void* kernel, const void* arguments);
  std::shared_ptr<const void> arguments;
  size_t argument_bytes;
};
cudaError_t LaunchGrid(const cudaLaunchConfig_t& config, Launch launch);
cudaError_t Malloc(void** data, size_t bytes);
cudaError_t SetSharedMemory(const void* kernel, size_t bytes);
cudaError_t Attributes(cudaFuncAttributes* attributes, const void* kernel);

// All threads of the block meet here; whether any of them gives true.
bool SyncBlock(bool vote);
// All threads of `mask` in the warp meet here, each with a value: those of all of them, by lane, until the thread's
// next call.
const uint64_t* SyncWarp(unsigned mask, uint64_t value);
int LaneInWarp();
// Adds while nobody else does; the value before.
unsigned AtomicAdd(unsigned* sum, unsigned value);
int AtomicAdd(int* sum, int value);
uint64_t AtomicAdd(uint64_t* sum, uint64_t value);

template <typename T>
uint64_t ToBits(T value) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}
template <typename T>
T FromBits(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace oneflow::software_cuda

// Where the thread that runs is in its grid.
extern constinit thread_local uint3 threadIdx, blockIdx;
extern constinit thread_local dim3 blockDim, gridDim;

template <typename T>
cudaError_t cudaMalloc(T** data, size_t bytes) {
  void* raw = nullptr;
  const cudaError_t error = oneflow::software_cuda::Malloc(&raw, bytes);
  *data = static_cast<T*>(raw);
  return error;
}

template <typename T>
cudaError_t cudaMallocHost(T** data, size_t bytes) {
  return cudaHostAlloc(reinterpret_cast<void**>(data), bytes, cudaHostAllocDefault);
}

template <typename... P>
cudaError_t cudaFuncSetAttribute(void (*kernel)(P...), cudaFuncAttribute attribute, int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0) return cudaErrorInvalidValue;
  return oneflow::software_cuda::SetSharedMemory(reinterpret_cast<const void*>(kernel), static_cast<size_t>(value));
}

template <typename... P>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, void (*kernel)(P...)) {
  return oneflow::software_cuda::Attributes(attributes, reinterpret_cast<const void*>(kernel));
}

template <typename... P, typename... A>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(P...), A&&... arguments) {
  using Arguments = std::tuple<P...>;
  const auto call = [](const void* raw, const void* held) {
    std::apply(reinterpret_cast<void (*)(P...)>(const_cast<void*>(raw)), *static_cast<const Arguments*>(held));
  };
  return oneflow::software_cuda::LaunchGrid(
      *config, {reinterpret_cast<const void*>(kernel), call,
                std::make_shared<const Arguments>(std::forward<A>(arguments)...), sizeof(Arguments)});
}

// Reads what the device keeps, which kernels may not.
#define SOFTWARE_CUDA_UNWATCHED [[gnu::no_sanitize("thread")]]

inline void __syncthreads() { oneflow::software_cuda::SyncBlock(false); }
inline int __syncthreads_or(int vote) { return oneflow::software_cuda::SyncBlock(vote != 0); }
inline void __syncwarp(unsigned mask = 0xffffffffu) { oneflow::software_cuda::SyncWarp(mask, 0); }

template <typename T>
SOFTWARE_CUDA_UNWATCHED T __shfl_sync(unsigned mask, T value, int lane) {
  namespace cuda = oneflow::software_cuda;
  return cuda::FromBits<T>(cuda::SyncWarp(mask, cuda::ToBits(value))[lane & 31]);
}
template <typename T>
SOFTWARE_CUDA_UNWATCHED T __shfl_xor_sync(unsigned mask, T value, int lanes) {
  namespace cuda = oneflow::software_cuda;
  return cuda::FromBits<T>(cuda::SyncWarp(mask, cuda::ToBits(value))[(cuda::LaneInWarp() ^ lanes) & 31]);
}
template <typename T>
SOFTWARE_CUDA_UNWATCHED T __shfl_up_sync(unsigned mask, T value, unsigned lanes) {
  namespace cuda = oneflow::software_cuda;
  const int lane = cuda::LaneInWarp(), from = lane - static_cast<int>(lanes);
  return cuda::FromBits<T>(cuda::SyncWarp(mask, cuda::ToBits(value))[from < 0 ? lane : from]);
}
SOFTWARE_CUDA_UNWATCHED inline unsigned __ballot_sync(unsigned mask, int vote) {
  const uint64_t* const votes = oneflow::software_cuda::SyncWarp(mask, vote != 0);
  unsigned result = 0;
  for (int lane = 0; lane < 32; ++lane) result |= static_cast<unsigned>((mask >> lane & 1) && votes[lane]) << lane;
  return result;
}
inline int __any_sync(unsigned mask, int vote) { return __ballot_sync(mask, vote) != 0; }
template <typename T>
SOFTWARE_CUDA_UNWATCHED unsigned __match_any_sync(unsigned mask, T value) {
  namespace cuda = oneflow::software_cuda;
  const uint64_t* const values = cuda::SyncWarp(mask, cuda::ToBits(value));
  unsigned result = 0;
  for (int lane = 0; lane < 32; ++lane) {
    result |= static_cast<unsigned>((mask >> lane & 1) && values[lane] == cuda::ToBits(value)) << lane;
  }
  return result;
}

template <typename T>
T atomicAdd(T* sum, T value) {
  return oneflow::software_cuda::AtomicAdd(sum, value);
}
inline unsigned long long atomicAdd(unsigned long long* sum, unsigned long long value) {
  return oneflow::software_cuda::AtomicAdd(reinterpret_cast<uint64_t*>(sum), uint64_t{value});
}

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
inline unsigned __float_as_uint(float x) {
  return oneflow::software_cuda::FromBits<unsigned>(oneflow::software_cuda::ToBits(x));
}
inline float __uint_as_float(unsigned x) {
  return oneflow::software_cuda::FromBits<float>(oneflow::software_cuda::ToBits(x));
}
using std::isfinite;
using std::isinf;
using std::isnan;
// By a call, that it is part of no fused multiply-add.
[[gnu::noinline]] inline float __fmul_rn(float a, float b) { return a * b; }
inline double cospi(double x) { return std::cos(3.14159265358979323846 * x); }
inline double sinpi(double x) { return std::sin(3.14159265358979323846 * x); }
inline float normcdff(float x) { return 0.5f * std::erfc(-x * 0.70710678118654752f); }
inline float cospif(float x) { return static_cast<float>(std::cos(M_PI * x)); }
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
