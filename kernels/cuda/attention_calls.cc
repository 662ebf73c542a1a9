// Into which calls of cuDNN attention is divided. Plans ask too, which may be made where there is no device.
#include <algorithm>

#include "kernels/cuda/cudnn_attention.h"

namespace oneflow::cuda {

int64_t ExpectedScratch(const AttentionProblem& problem, const AttentionCall& call) {
  constexpr int64_t kTile = 128, kLeast = 256;
  if (!problem.backward) return kLeast;
  const int64_t padded = (problem.tokens + kTile - 1) / kTile * kTile;
  return call.samples * call.heads *
             (padded * padded * static_cast<int64_t>(SizeOf(problem.dtype)) +
              problem.tokens * static_cast<int64_t>(sizeof(float))) +
         kLeast;
}

// Heads are divided before a sample is, since calls must be alike.
AttentionCall CallOf(const AttentionProblem& problem) {
  const auto fits = [&](int64_t samples, int64_t heads) {
    return ExpectedScratch(problem, {samples, heads}) <= kMostScratch;
  };
  for (int64_t samples = problem.batch; samples > 0; --samples) {
    if (problem.batch % samples == 0 && fits(samples, problem.heads)) return {samples, problem.heads};
  }
  for (int64_t heads = problem.heads; heads > 1; --heads) {
    if (problem.heads % heads == 0 && fits(1, heads)) return {1, heads};
  }
  return {std::min<int64_t>(problem.batch, 1), std::min<int64_t>(problem.heads, 1)};
}

}  // namespace oneflow::cuda
