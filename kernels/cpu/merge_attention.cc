// merge_attention: what queries read of some keys and what they read of others, as softmaxes over each, become what
// they read of all. Every element is a mean of the two; a head of a query has its weights in two numbers.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vec.h"

namespace oneflow::cpu {
namespace {

struct Side {
  const float* out;
  const float* lse;
};

// The share of each side in the mean, and the logarithm of both sums. Where neither has a key, both shares are 0.
struct Shares {
  Shares(float a, float b) {
    const float most = std::max(a, b);
    if (most == -INFINITY) return;
    const float of_a = std::exp(a - most), of_b = std::exp(b - most), sum = of_a + of_b;
    first = of_a / sum;
    second = of_b / sum;
    lse = most + std::log(sum);
  }
  float first = 0, second = 0, lse = -INFINITY;
};

// in: out_a[b,t,c], lse_a[b,n,t], out_b, lse_b; out: out, lse. Outputs may be inputs 0 and 1.
const char* MergeAttention(const KernelArgs& args) {
  const TensorArg& x = args.in[0];
  const TensorArg& statistics = args.in[1];
  const int64_t tokens = x.dims[1], heads = statistics.dims[1], d = heads == 0 ? 0 : x.dims[2] / heads;
  const Side a = {x.as<const float>(), statistics.as<const float>()},
             b = {args.in[2].as<const float>(), args.in[3].as<const float>()};
  float* const out = args.out[0].as<float>();
  float* const lse = args.out[1].as<float>();
  ParallelFor(x.dims[0] * tokens, Grain(3 * sizeof(float) * x.dims[2]), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t head = 0; head < heads; ++head) {
        const int64_t at = (row / tokens * heads + head) * tokens + row % tokens, first = (row * heads + head) * d;
        const Shares shares(a.lse[at], b.lse[at]);
        lse[at] = shares.lse;
        VecLoop(d, [&](int64_t i, auto lanes) {
          const F32s of_a = Load(a.out + first + i, lanes), of_b = Load(b.out + first + i, lanes);
          Store(out + first + i, of_a * shares.first + of_b * shares.second, lanes);
        });
      }
    }
  });
  return nullptr;
}

}  // namespace

KernelList MergeAttentionKernels() { return {{"merge_attention", DType::kFloat32, MergeAttention}}; }

}  // namespace oneflow::cpu
