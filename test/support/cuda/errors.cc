// What errors are called.
#include <cuda_runtime.h>

#include <algorithm>
#include <iterator>

namespace {

struct Error {
  cudaError_t error;
  const char *name, *text;
};

constexpr Error kErrors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection", "invalid copy direction"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorIllegalState, "cudaErrorIllegalState", "operation not permitted in the current state"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorMisalignedAddress, "cudaErrorMisalignedAddress", "misaligned address"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "not permitted while a stream is captured"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated", "the capture failed earlier"},
    {cudaErrorStreamCaptureMerge, "cudaErrorStreamCaptureMerge", "two captures would become one"},
    {cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched", "the capture did not begin in this stream"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined", "a stream did not come back to the capture"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation", "a capture depends on work outside of it"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent", "the event was last recorded in a capture"},
    {cudaErrorStreamCaptureWrongThread, "cudaErrorStreamCaptureWrongThread", "another thread began the capture"},
};

Error Find(cudaError_t error) {
  const auto* const it =
      std::find_if(std::begin(kErrors), std::end(kErrors), [&](const Error& x) { return x.error == error; });
  return it == std::end(kErrors) ? Error{error, "unrecognized error code", "unrecognized error code"} : *it;
}

}  // namespace

extern "C" {

const char* cudaGetErrorName(cudaError_t error) { return Find(error).name; }
const char* cudaGetErrorString(cudaError_t error) { return Find(error).text; }

}  // extern "C"
