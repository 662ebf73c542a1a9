// Copies and reductions of boxes in device memory: CopyRegion (kernels/copy.h) on a GPU. They take any strides and
// element type, and are launched on a stream.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <span>

#include "kernels/ragged.h"
#include "oneflow_core/dtype.h"

namespace oneflow::cuda {

enum class Combine : uint8_t { kOverwrite, kSum, kMax, kMin };

struct BoxCopy {
  DType dtype = DType::kFloat32;
  std::span<const int64_t> extent;
  const void* source = nullptr;
  std::span<const int64_t> source_stride;  // in elements; may be 0
  void* target = nullptr;
  std::span<const int64_t> target_stride;
  Combine combine = Combine::kOverwrite;
};

// Null, or a static string that says what is wrong. Empty boxes are fine. The two boxes must not overlap unless they
// are the same.
const char* Copy(cudaStream_t stream, const BoxCopy& copy);

// As CopyRows of kernels/copy.h. `counts` are in device memory and are read when the copy runs.
struct RowsCopy {
  BoxCopy box;
  const RowBox& rows;
  const int32_t* counts = nullptr;
  bool source_packed = false;
  bool target_packed = false;
};
const char* CopyRows(cudaStream_t stream, const RowsCopy& copy);

// Copies `count` consecutive elements.
const char* CopyRun(cudaStream_t stream, DType dtype, int64_t count, const void* source, void* target,
                    Combine combine = Combine::kOverwrite);

// Null if the current device can run the kernels of this build, otherwise why not.
const char* CheckKernelImage();

}  // namespace oneflow::cuda
