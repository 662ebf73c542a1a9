// The memory of a cuda device that libraries take beside a plan: published figures. We have measured none. At run time
// the free memory of a device is known and shows the difference (actor/free_memory.h).
#pragma once

#include <cstdint>

namespace oneflow {

// CUDA's context of a process. Users of CUDA 11.7 and later, which loads kernels when they are called, report 300 to
// 400 MB on earlier GPUs (PyTorch's issues 107667 and 109888); larger GPUs take more.
inline constexpr int64_t kCudaContextBytes = int64_t{512} << 20;
// Kernels of cuBLASLt, cuDNN, NCCL and ours that a job loads. All of them at once took some 700 MB of a context before
// 11.7 (the same issues); a job calls a part.
inline constexpr int64_t kLoadedKernelBytes = int64_t{256} << 20;
// NCCL's buffers for reductions, gathers and broadcasts, of each communicator: what an all-reduce was seen to take on
// four A100 with NVLink (NCCL's issue 964). A ring or a tree has as many neighbours in a group of any size.
inline constexpr int64_t kNcclBytesOfTwo = int64_t{544} << 20;
inline constexpr int64_t kNcclBytesOfMore = int64_t{688} << 20;
// NCCL's buffers for sends and receives, of each peer: 32 channels with 10 MiB and 2 MiB twice each; seen on eight
// H100, where an all-to-all took 3.28 GB for seven peers (NCCL's issue 1685).
inline constexpr int64_t kNcclBytesOfAPeer = int64_t{448} << 20;

}  // namespace oneflow
