// sample_token draws the next token from the logits at the last filled position; append_token writes it behind the
// others. Both are one block: what they do is small, and the host must not wait for it.
//
// What the cpu twin returns as an error is left visible in the data here: an empty text yields the token -1, and a
// length outside the tokens leaves them as they are.
#include "kernels/cuda/team.cuh"
#include "kernels/random.h"

namespace oneflow::cuda {
namespace {

struct Largest {
  float value;
  int64_t index;
};

// The first of the largest elements, to all threads of the block.
__device__ Largest FirstLargest(const float* x, int64_t n) {
  __shared__ Largest of_thread[kThreads];
  Largest best = {x[0], 0};
  for (int64_t i = threadIdx.x; i < n; i += kThreads) {
    if (x[i] > best.value) best = {x[i], i};
  }
  of_thread[threadIdx.x] = best;
  __syncthreads();
  for (int i = 0; i < kThreads; ++i) {
    const Largest other = of_thread[i];
    if (other.value > best.value || (other.value == best.value && other.index < best.index)) best = other;
  }
  return best;
}

__device__ double Weight(const float* x, int64_t i, float largest, double temperature) {
  return exp((static_cast<double>(x[i]) - largest) / temperature);
}

__global__ void SampleKernel(const float* logits, int64_t t, int64_t v, const int32_t* length, double temperature,
                             uint64_t key, const ActNumbers* act, int32_t* id) {
  __shared__ double weight_of_thread[kThreads];
  if (*length < 1) {
    if (threadIdx.x == 0) *id = -1;
    return;
  }
  const float* const x = logits + ((*length < t ? *length : t) - 1) * v;
  const Largest largest = FirstLargest(x, v);
  if (temperature <= 0) {
    if (threadIdx.x == 0) *id = static_cast<int32_t>(largest.index);
    return;
  }
  // Each thread weighs a run of tokens; the first thread finds the run and walks through it.
  const int64_t run = (v + kThreads - 1) / kThreads;
  double weight = 0;
  for (int64_t i = threadIdx.x * run; i < (threadIdx.x + 1) * run && i < v; ++i) {
    weight += Weight(x, i, largest.value, temperature);
  }
  weight_of_thread[threadIdx.x] = weight;
  __syncthreads();
  if (threadIdx.x != 0) return;
  double total = 0;
  for (int i = 0; i < kThreads; ++i) total += weight_of_thread[i];
  double left =
      ToUniform(RandomBits(key, static_cast<uint64_t>(act->step), static_cast<uint64_t>(act->micro_batch))) * total;
  int64_t at = 0;
  for (int i = 0; i < kThreads - 1 && at + run < v && left >= weight_of_thread[i]; ++i, at += run) {
    left -= weight_of_thread[i];
  }
  for (; at < v - 1; ++at) {
    left -= Weight(x, at, largest.value, temperature);
    if (left < 0) break;
  }
  *id = static_cast<int32_t>(at);
}

// in: logits[1,t,v], length[]. One uniform number per step picks from the cumulative distribution.
const char* SampleToken(const KernelArgs& args) {
  const TensorArg& logits = args.in[0];
  if (logits.dims[1] < 1 || logits.dims[2] < 1) return "sample_token: there are no logits";
  const uint64_t key =
      RandomKey(static_cast<uint64_t>(args.attrs->Int("seed")), static_cast<uint64_t>(args.attrs->Int("key")));
  return Launch({Stream(args), 1}, SampleKernel, logits.as<const float>(), logits.dims[1], logits.dims[2],
                args.in[1].as<const int32_t>(), args.attrs->Double("temperature"), key, args.act,
                args.out[0].as<int32_t>());
}

__global__ void AppendKernel(int32_t* tokens, int64_t t, int32_t* length, const int32_t* id) {
  const int32_t filled = *length;
  if (filled < 0 || filled > t) return;
  if (filled == t) {
    for (int64_t begin = 0; begin + 1 < t; begin += kThreads) {
      const int64_t i = begin + threadIdx.x;
      const int32_t next = i + 1 < t ? tokens[i + 1] : 0;
      __syncthreads();  // all are read before any is overwritten
      if (i + 1 < t) tokens[i] = next;
      __syncthreads();
    }
  }
  __syncthreads();  // everyone knows the old length
  if (threadIdx.x != 0) return;
  const int32_t at = filled == t ? filled - 1 : filled;
  tokens[at] = *id;
  *length = at + 1;
}

// in: tokens[1,t] (overwritten), length[] (overwritten), id[]. Full tokens shift left by one.
const char* AppendToken(const KernelArgs& args) {
  if (args.in[0].count == 0) return nullptr;
  return Launch({Stream(args), 1}, AppendKernel, args.in[0].as<int32_t>(), args.in[0].count, args.in[1].as<int32_t>(),
                args.in[2].as<const int32_t>());
}

}  // namespace

KernelList GenerationKernels() {
  return {{"sample_token", DType::kFloat32, SampleToken}, {"append_token", DType::kInt32, AppendToken}};
}

}  // namespace oneflow::cuda
