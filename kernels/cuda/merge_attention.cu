// merge_attention: what queries read of some keys and what they read of others, as softmaxes over each, become what
// they read of all. A warp has a head of a query: its weights are two numbers.
#include <cmath>

#include "kernels/cuda/division.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/team.cuh"

namespace oneflow::cuda {
namespace {

struct MergedSide {
  const float *out, *lse;
};

// As its twin on CPUs. Outputs may be those of `a`.
__global__ void MergeKernel(int64_t tasks, Divisor<uint64_t> heads, Divisor<uint64_t> tokens, int64_t num_heads,
                            int64_t num_tokens, int64_t d, MergedSide a, MergedSide b, float* out, float* lse) {
  const Team<kWarp> team;
  for (int64_t task = team.first(); task < tasks; task += team.stride()) {
    const auto [row, head] = heads.Divide(task);
    const auto [sample, token] = tokens.Divide(row);
    const int64_t at = (static_cast<int64_t>(sample) * num_heads + static_cast<int64_t>(head)) * num_tokens +
                       static_cast<int64_t>(token);
    const float of_a = a.lse[at], of_b = b.lse[at], most = fmaxf(of_a, of_b);
    const float shift = most == -INFINITY ? 0.0f : most, first = expf(of_a - shift), second = expf(of_b - shift);
    const float sum = first + second, inverse = sum == 0 ? 0.0f : 1 / sum;
    __syncwarp();  // lse of `a` has been read
    if (team.member() == 0) lse[at] = most + logf(sum);
    for (int64_t i = task * d + team.member(); i < (task + 1) * d; i += kWarp) {
      out[i] = a.out[i] * (first * inverse) + b.out[i] * (second * inverse);
    }
  }
}

// in: out_a[b,t,c], lse_a[b,n,t], out_b, lse_b; out: out, lse.
const char* MergeAttention(const KernelArgs& args) {
  const TensorArg &x = args.in[0], &statistics = args.in[1];
  const int64_t tasks = statistics.count, heads = statistics.dims[1], tokens = x.dims[1];
  if (tasks == 0) return nullptr;
  const MergedSide a = {x.as<const float>(), statistics.as<const float>()},
                   b = {args.in[2].as<const float>(), args.in[3].as<const float>()};
  return Launch({Stream(args), Blocks(tasks, kThreads / kWarp)}, MergeKernel, tasks, Divisor<uint64_t>(heads),
                Divisor<uint64_t>(tokens), heads, tokens, x.dims[2] / heads, a, b, args.out[0].as<float>(),
                args.out[1].as<float>());
}

}  // namespace

KernelList MergeAttentionKernels() { return {{"merge_attention", DType::kFloat32, MergeAttention}}; }

}  // namespace oneflow::cuda
