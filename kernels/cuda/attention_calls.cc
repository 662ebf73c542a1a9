// Into which calls of cuDNN attention is divided. Plans ask too, which may be made where there is no device.
#include <algorithm>

#include "kernels/cuda/cudnn_attention.h"

namespace oneflow::cuda {

int64_t ExpectedScratch(const AttentionProblem& problem, const AttentionCall& call) {
  constexpr int64_t kTile = 128, kLeast = 256;
  if (!problem.backward) return kLeast;
  const auto padded = [](int64_t rows) { return (rows + kTile - 1) / kTile * kTile; };
  const int64_t element = static_cast<int64_t>(SizeOf(problem.dtype));
  const int64_t of_group = problem.heads > problem.kv_heads ? 2 * problem.keys * problem.head_size * element : 0;
  return call.samples * call.heads *
             (padded(problem.tokens) * padded(problem.keys) * element +
              problem.tokens * static_cast<int64_t>(sizeof(float)) + of_group) +
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
  const int64_t group = problem.kv_heads == 0 ? 1 : problem.heads / problem.kv_heads;
  for (int64_t heads = problem.heads; heads > group; heads -= group) {
    if (problem.heads % heads == 0 && fits(1, heads)) return {1, heads};
  }
  return {std::min<int64_t>(problem.batch, 1), std::min<int64_t>(problem.heads, group)};
}

}  // namespace oneflow::cuda
