// What attention and its gradient do to scores besides a softmax, as attributes and optional inputs say: a cap,
// documents, dropout; and the gradient of lse. Standard library only, so that CUDA sources may include it.
//
//   attention        q, k, v [, query_documents, key_documents]
//   attention_grad   dout, q, k, v, out, lse [, query_documents, key_documents] [, dlse]
#pragma once

#include <cstdint>

#include "kernels/host_device.h"
#include "kernels/kernel.h"
#include "kernels/random.h"

namespace oneflow {

struct AttentionScores {
  // `q` is input 0 of attention, input 1 of its gradient.
  AttentionScores(const KernelArgs& args, int q) {
    const size_t plain = q == 0 ? 3 : 6, beside = args.in.size() - plain;
    has_documents = beside >= 2;
    if (has_documents) {
      query_documents = args.in[plain].as<const int32_t>();
      key_documents = args.in[plain + 1].as<const int32_t>();
    }
    has_lse_gradient = beside % 2 == 1;
    if (has_lse_gradient) dlse = args.in.back().as<const float>();
    soft_cap = static_cast<float>(args.attrs->Double("soft_cap"));
    const double rate = args.attrs->Double("dropout");
    drops = rate > 0;
    if (!drops) return;
    threshold = DropThreshold(rate);
    kept = KeptScale(rate);
    key = RandomKey(static_cast<uint64_t>(args.attrs->Int("seed")), static_cast<uint64_t>(args.attrs->Int("key")));
    const TensorArg& of_q = args.in[q];
    const int64_t head = of_q.logical_dims[2] / args.attrs->Int("heads", 1);
    heads = args.attrs->Int("heads", 1);
    tokens = of_q.logical_dims[1];
    keys = args.in[q + 1].logical_dims[1];
    first_head = head == 0 ? 0 : of_q.start[2] / head;
    first_sample = of_q.start[0];
    first_query = of_q.start[1];
    first_key = args.in[q + 1].start[1];
    whole = of_q.logical_dims[0] * heads * tokens * keys;
  }

  // Scores are products times the scale, and no more.
  bool are_plain() const { return !has_documents && soft_cap == 0 && !drops; }
  // The LOGICAL index, within a micro-batch, of a query's score with the first key that is here: scores are [batch,
  // heads, tokens, keys].
  OF_HOST_DEVICE int64_t IndexOf(int64_t sample, int64_t head, int64_t query) const {
    return (((first_sample + sample) * heads + first_head + head) * tokens + first_query + query) * keys + first_key;
  }

  bool has_documents = false, has_lse_gradient = false, drops = false;
  const int32_t *query_documents = nullptr, *key_documents = nullptr;  // [batch, tokens], [batch, keys]
  const float* dlse = nullptr;                                         // [batch, heads, tokens]
  float soft_cap = 0;                                                  // c: a score is c tanh(score / c); 0: none
  // A probability is kept, times `kept`, iff the upper 24 of its random bits are at least the threshold.
  uint32_t threshold = 0;
  float kept = 1;
  uint64_t key = 0;
  int64_t first_sample = 0, first_head = 0, first_query = 0, first_key = 0;  // within the logical tensors
  int64_t heads = 0, tokens = 0, keys = 0;                                   // of these
  int64_t whole = 0;                                                         // scores of a micro-batch
};

}  // namespace oneflow
