// The heads of attention, for its kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/cpu/half.h"
#include "kernels/cpu/vec.h"
#include "kernels/kernel.h"

namespace oneflow::cpu {

// Of q[b,t,c], and all that has its shape: head h has columns h*d .. (h+1)*d.
struct AttentionShape {
  AttentionShape(const TensorArg& q, const AttrMap& attrs)
      : batch(q.dims[0]),
        tokens(q.dims[1]),
        columns(q.dims[2]),
        d(q.logical_dims[2] / std::max<int64_t>(1, attrs.Int("heads", 1))) {
    heads = d == 0 ? 0 : columns / d;
    scale = static_cast<float>(1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, d))));
    causal = attrs.Bool("causal");
  }
  int64_t batch, tokens, columns, d, heads;
  float scale;
  bool causal;
  // The offset of a head's first element.
  int64_t HeadAt(int64_t task) const { return task / heads * tokens * columns + task % heads * d; }
  // The distance from a task's head to the next one's, among tasks before `end`; 0: there is no next one.
  int64_t Ahead(int64_t task, int64_t end) const { return task + 1 < end ? HeadAt(task + 1) - HeadAt(task) : 0; }
  // Keys that query i sees.
  int64_t Visible(int64_t i) const { return causal ? i + 1 : tokens; }
};

// A head's columns of the tensors of attention_grad.
template <typename T>
struct AttentionHead {
  const T *dout, *q, *k, *v, *out;
  const float* lse;
  T *dq, *dk, *dv;
};

// Prefetches a row of the next head. Rows lie apart, so hardware prefetchers do not see them coming. A processor has
// few outstanding loads; issue the prefetches between the rows that are computed.
template <int kForWriting, typename T>
OF_INLINE void PrefetchHeadRow(const AttentionShape& s, const T* row) {
  constexpr int64_t kLineElements = kLine * static_cast<int64_t>(sizeof(float) / sizeof(T));
  for (int64_t c = 0; c < s.d; c += kLineElements) __builtin_prefetch(row + c, kForWriting, 2);
}

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
