// The heads of attention, for its kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>

#include "kernels/cpu/half.h"
#include "kernels/cpu/vec.h"
#include "kernels/kernel.h"

namespace oneflow::cpu {

// Of q[b,t,c] and k[b,s,kv]: head h of q has columns h*d .. (h+1)*d. Heads of q share those of k and v in groups: head
// h reads the h / group-th.
struct AttentionShape {
  AttentionShape(const TensorArg& q, const TensorArg& k, const AttrMap& attrs)
      : batch(q.dims[0]),
        tokens(q.dims[1]),
        columns(q.dims[2]),
        keys(k.dims[1]),
        kv_columns(k.dims[2]),
        d(q.logical_dims[2] / std::max<int64_t>(1, attrs.Int("heads", 1))),
        behind(q.start[1] - k.start[1]),
        window(attrs.Int("window")) {
    heads = d == 0 ? 0 : columns / d;
    kv_heads = d == 0 ? 0 : kv_columns / d;
    group = kv_heads == 0 ? 1 : heads / kv_heads;
    scale = static_cast<float>(attrs.Double("scale", 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, d)))));
    causal = has_mask = attrs.Bool("causal");
    if (behind >= keys - 1 && window == 0) causal = false;  // all of them see all keys
    const int64_t share = attrs.Int("share");
    first_head = share == 2 ? heads / 2 : 0;
    end_head = share == 1 ? heads / 2 : heads;
    is_part = tokens != q.logical_dims[1] || keys != k.logical_dims[1];
  }
  int64_t batch, tokens, columns, keys, kv_columns, d;
  int64_t behind;  // so many places lies the first query behind the first key: 0 where all of both are here
  int64_t window, heads, kv_heads, group;
  float scale;
  bool causal;
  bool has_mask;                 // causal, if not here
  bool is_part;                  // some queries or keys are elsewhere
  int64_t first_head, end_head;  // of a sample: those that see keys
  // The offset of a head's first element in q, and of the head that it reads in k.
  int64_t HeadAt(int64_t task) const { return task / heads * tokens * columns + task % heads * d; }
  int64_t KvHeadAt(int64_t kv_task) const { return kv_task / kv_heads * keys * kv_columns + kv_task % kv_heads * d; }
  // Keys that query i sees: from the first one to before the last.
  int64_t FirstVisible(int64_t i) const {
    return window > 0 ? std::clamp<int64_t>(i + behind + 1 - window, 0, keys) : 0;
  }
  int64_t Visible(int64_t i) const { return causal ? std::clamp<int64_t>(i + behind + 1, 0, keys) : keys; }
  // No query sees any key.
  bool is_blind() const { return first_head == end_head || Visible(tokens - 1) <= FirstVisible(0); }
  bool all_heads_see() const { return end_head - first_head == heads; }
  // The same of groups of heads, of which at least one sees keys.
  int64_t first_group() const { return first_head / group; }
  int64_t end_group() const { return (end_head + group - 1) / group; }
  bool Sees(int64_t head) const { return head % heads >= first_head && head % heads < end_head; }
};

// A head's columns of the tensors of attention_grad.
template <typename T>
struct AttentionHead {
  const T *dout, *q, *k, *v, *out;
  const float *lse, *dlse;  // dlse: null if there is none
  T *dq, *dk, *dv;
};

// That of a head of attention_grad, whose operands are in: dout, q, k, v, out, lse; out: dq, dk, dv; and `dlse`, of all
// heads, or null.
template <typename T>
AttentionHead<T> GradientHead(const KernelArgs& args, const AttentionShape& s, const float* dlse, int64_t head) {
  const int64_t at = s.HeadAt(head), kv_at = s.KvHeadAt(head / s.group);
  const auto in = [&](int i, int64_t offset) { return args.in[i].as<const T>() + offset; };
  const auto out = [&](int i, int64_t offset) { return args.out[i].as<T>() + offset; };
  const float* const lse = args.in[5].as<const float>() + head * s.tokens;
  const float* const of_lse = dlse == nullptr ? nullptr : dlse + head * s.tokens;
  return {in(0, at), in(1, at), in(2, kv_at), in(3, kv_at),  in(4, at),
          lse,       of_lse,    out(0, at),   out(1, kv_at), out(2, kv_at)};
}

// D of a query, less what flows through its lse: dS = P (dP - D).
template <typename T>
OF_INLINE float MeanOfGradients(const AttentionShape& s, const AttentionHead<T>& h, int64_t query) {
  const T *const dout = h.dout + query * s.columns, *const out = h.out + query * s.columns;
  F32s dot = Splat(0);
  VecLoop(s.d, [&](int64_t c, auto lanes) OF_INLINED { dot += Load(dout + c, lanes) * Load(out + c, lanes); });
  return Sum(dot) - (h.dlse == nullptr ? 0 : h.dlse[query]);
}

// Prefetches a row of the next head. Rows lie apart, so hardware prefetchers do not see them coming. A processor has
// few outstanding loads; issue the prefetches between the rows that are computed.
template <int kForWriting, typename T>
OF_INLINE void PrefetchHeadRow(const AttentionShape& s, const T* row) {
  constexpr int64_t kLineElements = kLine * static_cast<int64_t>(sizeof(float) / sizeof(T));
  for (int64_t c = 0; c < s.d; c += kLineElements) __builtin_prefetch(row + c, kForWriting, 2);
}

// Where the head that a thread computes next lies.
struct Ahead {
  // Of heads before `end`.
  Ahead(const AttentionShape& s, int64_t head, int64_t end) {
    if (head + 1 >= end) return;
    queries = s.HeadAt(head + 1) - s.HeadAt(head);
    keys = s.KvHeadAt((head + 1) / s.group) - s.KvHeadAt(head / s.group);
  }
  // Prefetches its row i of these tensors, which are as q and as k.
  template <typename T>
  OF_INLINE void Ask(const AttentionShape& s, int64_t i, std::initializer_list<const T*> read,
                     std::initializer_list<const T*> written, std::initializer_list<const T*> kv_read,
                     std::initializer_list<const T*> kv_written) const {
    const int64_t next = queries + i * s.columns, kv_next = keys + i * s.kv_columns;
    if (queries != 0) {
      for (const T* x : read) PrefetchHeadRow<0>(s, x + next);
      for (const T* x : written) PrefetchHeadRow<1>(s, x + next);
    }
    if (keys != 0 && i < s.keys) {
      for (const T* x : kv_read) PrefetchHeadRow<0>(s, x + kv_next);
      for (const T* x : kv_written) PrefetchHeadRow<1>(s, x + kv_next);
    }
  }

  int64_t queries = 0, keys = 0;  // in elements; 0: there is none, or it has the same keys
};

OF_INLINE float MaxOfRow(const float* row, int64_t n) {
  F32s max = Splat(-INFINITY);
  VecLoop(n, [&](int64_t i, auto lanes) { max = Max(max, Load(row + i, lanes, -INFINITY)); });
  return MaxOf(max);
}

// log x of normal positive numbers, to a rounding of the result or 5e-7: x = 2^e (1 + f) with 1 + f in [2/3, 4/3), and
// log(1 + f) = f - f^2 / 2 + f^3 p(f) with the best p of degree 6. NaN gives NaN.
OF_INLINE F32s LogOfSums(F32s x) {
  constexpr int32_t kTwoThirds = 0x3f2aaaab;
  const I32s bits = (I32s)x, e = (bits - kTwoThirds) >> 23;
  const F32s f = (F32s)(bits - (e << 23)) - 1.0f;
  F32s p = f * 0.138198361f - 0.151222214f;
  p = p * f + 0.140423849f;
  p = p * f - 0.164723203f;
  p = p * f + 0.200079158f;
  p = p * f - 0.250042379f;
  p = p * f + 0.333332658f;
  const F32s log = __builtin_convertvector(e, F32s) * 0.693147181f + (f + f * f * (p * f - 0.5f));
  return x == x ? log : x;
}

}  // namespace oneflow::cpu
