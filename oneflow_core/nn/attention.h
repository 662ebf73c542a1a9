// Multi-head attention: out = o(attention(q(x), k(y), v(y))), where y is x itself or what x looks at.
//
// q, k, v and o are linear layers of their own. On mesh axis "tp" the first three are split by columns, that is by
// heads, and o by rows, so that one reduction at the end is all the communication. q and k may be normalised by head
// (Henry et al., "Query-Key Normalization", 2020) and turned by position, in this order.
#pragma once

#include <optional>
#include <source_location>
#include <string>

#include "oneflow_core/builder.h"

namespace oneflow::nn {

struct AttentionOptions {
  int64_t heads = 1;
  int64_t kv_heads = 0;    // which divide heads; 0: as many
  int64_t head_width = 0;  // 0: the width of x, divided
  bool causal = true;      // a token sees itself and those before it, not all
  int64_t window = 0;      // a token sees itself and so many less one before it; 0: all
  bool qkv_bias = true;
  bool output_bias = true;
  std::optional<double> qk_norm;             // the epsilon of RMS norms of each head of q and k
  bool offset_norms = false;                 // these are OffsetRmsNorm (norm.h)
  std::optional<AttrMap> rotary;             // attributes of the op `rotary`, for q and k
  double scale = 0;                          // of the scores; 0: 1 / sqrt(width of a head)
  double soft_cap = 0;                       // c: scores are c tanh(score / c); 0: as they are
  Tensor documents;                          // i32[batch, time], if valid: a token sees those of its own document alone
  Tensor added;                              // to the scores, to whose shape it broadcasts; they are in memory then too
  std::string init = "normal(0.02)";         // of q, k, v
  std::string query_init;                    // of q; empty: as k and v
  std::string output_init = "normal(0.02)";  // of o, which writes to the residual stream
  // q, k, v and what is mixed of them are asked to be split by heads on mesh axis "tp", with their gradients; else only
  // the weights are.
  bool says_how_it_lies = false;
  // If it is given, scores [batch, heads, time, time] are of this type and kept from forward to backward, as products
  // and a softmax between them do; else a kernel computes them again, block by block. For comparisons.
  std::optional<DType> kept_scores;
  double dropout = 0;  // of the softmax
};

// x is [batch, time, width]. Variables "name/{q,k,v,o}/{weight,bias}", "name/{q_norm,k_norm}/weight". The builder fails
// with InvalidArgument if x is not of three dimensions, the heads do not divide its width and have none of their own,
// or `kept_scores` are of other than plain causal heads.
Tensor SelfAttention(const Tensor& x, absl::string_view name, const AttentionOptions& options,
                     std::source_location loc = std::source_location::current());

// x [batch, time, width] looks at y [batch, other time, other width]. As above; the builder fails too if y is not of
// three dimensions.
Tensor CrossAttention(const Tensor& x, const Tensor& y, absl::string_view name, const AttentionOptions& options,
                      std::source_location loc = std::source_location::current());

}  // namespace oneflow::nn
