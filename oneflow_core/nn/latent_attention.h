// Multi-head latent attention (DeepSeek-AI, "DeepSeek-V2", 2024): keys and values come from one narrow vector of each
// token, and so may queries. Positions turn columns of their own.
//
//   c, r = kv_down(x)           c [rank] is normalised; r [rotary] is turned, and one for all heads
//   k, v = kv_up(norm(c))       of each head k [plain], v [value]; its key is k, r
//   q    = q(x), or q_up(norm(q_down(x)))        of each head [plain + rotary], the last `rotary` of them turned
//   out  = o(attention(q, (k, r), v))
//
// On mesh axis "tp" q or q_up and kv_up are split by columns, that is by heads, and o by rows; what is narrow is whole
// on every rank.
#pragma once

#include <source_location>
#include <string>

#include "oneflow_core/builder.h"

namespace oneflow::nn {

struct LatentAttentionOptions {
  int64_t heads = 1;
  int64_t rank = 0;                                            // of keys and values: the width of c
  int64_t query_rank = 0;                                      // 0: queries are not narrowed
  int64_t plain_width = 0, rotary_width = 0, value_width = 0;  // of a head
  AttrMap rotary;                                              // attributes of the op `rotary`
  double scale = 0;                                            // of the scores; 0: 1 / sqrt(plain + rotary)
  double epsilon = 1e-6;                                       // of the norms of what is narrow
  std::string init = "normal(0.02)";
  std::string output_init = "normal(0.02)";  // of o, which writes to the residual stream
};

// x is [batch, time, width]; a token sees itself and those before it. Variables "name/{kv_down,kv_up,o}/weight",
// "name/kv_norm/weight", and "name/q/weight" or "name/{q_down,q_norm,q_up}/weight". The builder fails with
// InvalidArgument if x is not of three dimensions, or a rank or width is not positive.
Tensor LatentAttention(const Tensor& x, absl::string_view name, const LatentAttentionOptions& options,
                       std::source_location loc = std::source_location::current());

}  // namespace oneflow::nn
