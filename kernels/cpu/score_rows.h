// What a row of scores becomes beside a softmax (kernels/attention_scores.h), in the kernels of attention.
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/attention_scores.h"
#include "kernels/cpu/attention_head.h"
#include "kernels/cpu/philox.h"
#include "kernels/cpu/vec.h"

namespace oneflow::cpu {

// The scores of one head of one sample.
class ScoreRows {
 public:
  // Of the `task`-th head of all samples.
  ScoreRows(const AttentionScores& scores, const AttentionShape& s, const KernelArgs& args, int64_t task)
      : x_(scores), scale_(s.scale), sample_(task / s.heads), head_(task % s.heads) {
    if (x_.has_documents) {
      queries_ = x_.query_documents + sample_ * s.tokens;
      keys_ = x_.key_documents + sample_ * s.keys;
      num_keys_ = s.keys;
    }
    step_ = static_cast<uint64_t>(args.step);
    shift_ = args.micro_batch * x_.whole;
  }

  bool are_plain() const { return x_.are_plain(); }
  bool has_documents() const { return x_.has_documents; }
  bool drops() const { return x_.drops; }
  // What a row, once Transform() has run where it must, is yet to be multiplied by.
  float factor() const { return transforms() ? 1 : scale_; }
  bool transforms() const { return x_.has_documents || x_.soft_cap != 0; }

  // Keys from the first to behind the last whose document lies among those of queries [begin, end), as numbers do.
  std::pair<int64_t, int64_t> KeysOf(int64_t begin, int64_t end) const {
    const auto [low, high] = std::minmax_element(queries_ + begin, queries_ + end);
    const auto is_among = [low = *low, high = *high](int32_t id) { return id >= low && id <= high; };
    int64_t first = 0, last = num_keys_;
    while (first < last && !is_among(keys_[first])) ++first;
    while (first < last && !is_among(keys_[last - 1])) --last;
    return {first, last};
  }

  // A query's products with `n` keys from `key` on become scores, -infinity where it does not see the key. `slopes`,
  // unless null, takes the slopes of scores by scaled products.
  void Transform(int64_t query, int64_t key, int64_t n, float* row, float* slopes) const {
    const float inverse = x_.soft_cap == 0 ? 0 : 1 / x_.soft_cap;
    VecLoop(n, [&](int64_t i, auto lanes) {
      F32s score = Load(row + i, lanes) * scale_, slope = Splat(1);
      if (x_.soft_cap != 0) {
        const F32s share = Tanh(score * inverse);
        score = share * x_.soft_cap;
        slope = 1.0f - share * share;
      }
      if (slopes != nullptr) Store(slopes + i, slope, lanes);
      if (x_.has_documents) {
        const I32s ids = (I32s)Load(reinterpret_cast<const float*>(keys_ + key + i), lanes);
        score = ids == queries_[query] ? score : Splat(-INFINITY);
      }
      Store(row + i, score, lanes);
    });
  }

  // What a query's probabilities of `n` keys from `key` on are multiplied by: 0, or the inverse of the share kept.
  void Draw(int64_t query, int64_t key, int64_t n, float* row) const {
    const uint64_t index = static_cast<uint64_t>(shift_ + x_.IndexOf(sample_, head_, query) + key);
    ForRandomBits(x_.key, step_, index, n, [&](int64_t i, U32s bits, auto lanes) OF_INLINED {
      Store(row + i, (bits >> 8) >= x_.threshold ? Splat(x_.kept) : Splat(0), lanes);
    });
  }

 private:
  const AttentionScores& x_;
  const float scale_;
  const int64_t sample_, head_;
  const int32_t *queries_ = nullptr, *keys_ = nullptr;  // documents of this sample
  int64_t num_keys_ = 0, shift_ = 0;
  uint64_t step_ = 0;
};

}  // namespace oneflow::cpu
