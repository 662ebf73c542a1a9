// By a launch, whose arguments travel with it: a copy from the host's memory would have to be waited for before that
// memory is written again.
#include "kernels/cuda/act_numbers.h"
#include "kernels/cuda/launch.cuh"

namespace oneflow::cuda {
namespace {

__global__ void WriteKernel(ActNumbers numbers, ActNumbers* target) {
  if (threadIdx.x == 0) *target = numbers;
}

}  // namespace

const char* WriteActNumbers(cudaStream_t stream, const ActNumbers& numbers, ActNumbers* target) {
  return Launch({stream, 1}, WriteKernel, numbers, target);
}

}  // namespace oneflow::cuda
