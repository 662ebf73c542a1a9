// What tests know of attention and of its gradient.
#include <cmath>
#include <functional>

#include "oneflow_core/functional.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::AttentionOps {
namespace {

// The geometry of attention and the index of an element of a head.
struct Heads {
  Heads(const RefTensor& q, const RefTensor& k, const AttrMap& attrs)
      : b(q.dims[0]),
        t(q.dims[1]),
        s(k.dims[1]),
        c(q.dims[2]),
        e(k.dims[2]),
        n(attrs.Int("heads")),
        m(attrs.Int("kv_heads", n)),
        d(c / n),
        window(attrs.Int("window")),
        causal(attrs.Bool("causal")),
        scale(attrs.Double("scale", 1 / std::sqrt(static_cast<double>(d)))) {}
  int64_t At(int64_t batch, int64_t head, int64_t token, int64_t i) const {
    return (batch * t + token) * c + head * d + i;
  }
  int64_t KvAt(int64_t batch, int64_t head, int64_t key, int64_t i) const {
    return (batch * s + key) * e + head / (n / m) * d + i;
  }
  // Of a query's row and a key's.
  double Dot(const RefTensor& x, int64_t i, const RefTensor& y, int64_t j, int64_t batch, int64_t head) const {
    double dot = 0;
    for (int64_t k = 0; k < d; ++k) dot += x.values[At(batch, head, i, k)] * y.values[KvAt(batch, head, j, k)];
    return dot;
  }
  // body(batch, head, query, the first visible key, the end of them).
  void ForEach(const std::function<void(int64_t, int64_t, int64_t, int64_t, int64_t)>& body) const {
    for (int64_t batch = 0; batch < b; ++batch) {
      for (int64_t head = 0; head < n; ++head) {
        for (int64_t i = 0; i < t; ++i) {
          body(batch, head, i, window > 0 && i >= window ? i - window + 1 : 0, causal ? i + 1 : s);
        }
      }
    }
  }
  int64_t b, t, s, c, e, n, m, d, window;
  bool causal;
  double scale;
};

Tensors Attention(RefCall& c) {
  const RefTensor &q = c.in[0], &k = c.in[1], &v = c.in[2];
  const Heads h(q, k, c.attrs);
  RefTensor out = Zeros(q.dims), lse = Zeros({h.b, h.n, h.t});
  h.ForEach([&](int64_t batch, int64_t head, int64_t i, int64_t first, int64_t end) {
    std::vector<double> s(end - first);
    for (int64_t j = first; j < end; ++j) s[j - first] = h.Dot(q, i, k, j, batch, head) * h.scale;
    const double total = LogSumExp(s.data(), end - first);
    lse.values[(batch * h.n + head) * h.t + i] = total;
    for (int64_t j = first; j < end; ++j) {
      for (int64_t x = 0; x < h.d; ++x) {
        out.values[h.At(batch, head, i, x)] += std::exp(s[j - first] - total) * v.values[h.KvAt(batch, head, j, x)];
      }
    }
  });
  return {out, lse};
}

Tensors AttentionGrad(RefCall& c) {
  const RefTensor &dout = c.in[0], &q = c.in[1], &k = c.in[2], &v = c.in[3], &out = c.in[4], &lse = c.in[5];
  const Heads h(q, k, c.attrs);
  RefTensor dq = Zeros(q.dims), dk = Zeros(k.dims), dv = dk;
  h.ForEach([&](int64_t batch, int64_t head, int64_t i, int64_t first, int64_t end) {
    double mean = 0;
    for (int64_t x = 0; x < h.d; ++x) {
      mean += dout.values[h.At(batch, head, i, x)] * out.values[h.At(batch, head, i, x)];
    }
    for (int64_t j = first; j < end; ++j) {
      const double p = std::exp(h.Dot(q, i, k, j, batch, head) * h.scale - lse.values[(batch * h.n + head) * h.t + i]);
      const double ds = p * (h.Dot(dout, i, v, j, batch, head) - mean) * h.scale;
      for (int64_t x = 0; x < h.d; ++x) {
        const int64_t at_i = h.At(batch, head, i, x), at_j = h.KvAt(batch, head, j, x);
        dv.values[at_j] += p * dout.values[at_i];
        dk.values[at_j] += ds * q.values[at_i];
        dq.values[at_i] += ds * k.values[at_j];
      }
    }
  });
  return {dq, dk, dv};
}

constexpr const char kTypes[] = R"(
attention(f32[2,5,6] f32[2,5,6] f32[2,5,6]) {heads=3 causal=true} = f32[2,5,6] f32[2,3,5]
attention(f32[2,5,6] f32[2,5,6] f32[2,5,6]) {heads=1} = f32[2,5,6] f32[2,1,5]
attention(f32[2,5,6] f32[2,4,6] f32[2,5,6]) {heads=3} ! k is f32[2,4,6], v is f32[2,5,6]; they must be the same
attention(f32[2,5,6] f32[2,4,6] f32[2,4,6]) {heads=3} = f32[2,5,6] f32[2,3,5]
attention(bf16[2,5,12] bf16[2,5,4] bf16[2,5,4]) {heads=6 kv_heads=2 causal=true window=3 scale=1.0} = bf16[2,5,12]
    f32[2,6,5]
attention(f32[2,5,6] f32[2,5,4] f32[2,5,4]) {heads=3 kv_heads=2} ! attribute 'kv_heads' is 2 but must divide attribute
    'heads', which is 3
attention(f32[2,5,6] f32[2,5,6] f32[2,5,6]) {heads=3 kv_heads=1} ! q is f32[2,5,6] with 3 heads, k is f32[2,5,6] with 1;
    they must have samples and sizes of heads in common
attention(f32[2,5,6] f32[3,5,6] f32[3,5,6]) {heads=3} ! q is f32[2,5,6] with 3 heads, k is f32[3,5,6] with 3; they
    must have samples and sizes of heads in common
attention(f32[2,5,6] f32[2,4,6] f32[2,4,6]) {heads=3 causal=true} ! a causal attention needs as many keys as queries,
    but q is f32[2,5,6], k is f32[2,4,6]
attention(f32[2,5,6] f32[2,5,6] f32[2,5,6]) {heads=3 window=2} ! attribute 'window' is 2, which only a causal attention
    may have
attention(f32[2,5,6] f32[2,0,6] f32[2,0,6]) {heads=3} ! k is f32[2,0,6], which has no keys for the queries of q, which
    is f32[2,5,6]
attention(f32[2,5,6] f32[2,5,6] f32[2,5,6]) {heads=4} ! attribute 'heads' is 4 but must divide the last dimension of q,
    which is f32[2,5,6]
attention(f32[2,5,6] f32[2,5,6] f32[2,5,6]) {heads=0} ! attribute 'heads' is 0 but must be at least 1
attention(f32[5,6] f32[5,6] f32[5,6]) {heads=3} ! q is f32[5,6] but must have 3 dimensions
attention_grad(f32[2,5,6] f32[2,5,6] f32[2,5,6] f32[2,5,6] f32[2,5,6] f32[2,3,5]) {heads=3} = f32[2,5,6] f32[2,5,6]
    f32[2,5,6]
attention_grad(f32[2,5,6] f32[2,5,6] f32[2,5,6] f32[2,5,6] f32[2,5,6] f32[2,5,3]) {heads=3} ! lse is f32[2,5,3] but q,
    which is f32[2,5,6], needs f32[2,3,5]
attention_grad(f32[2,5,7] f32[2,5,6] f32[2,5,6] f32[2,5,6] f32[2,5,6] f32[2,3,5]) {heads=3} ! dout is f32[2,5,7], q is
    f32[2,5,6]; they must be the same
)";

constexpr const char kSignatures[] = R"(
attention(f32[4,8,16], f32[4,8,16], f32[4,8,16]) {heads=4} | S(0),S(0),S(0)->S(0),S(0) S(2),S(2),S(2)->S(2),S(1) | - | -
    | fused_attention_ops.cpp | batch and heads; the axis must divide the heads, there too
attention(f32[4,8,32], f32[4,8,16], f32[4,8,16]) {heads=8, kv_heads=4} | S(0),S(0),S(0)->S(0),S(0)
    S(2),S(2),S(2)->S(2),S(1) | - | - | fused_attention_ops.cpp | heads that share keys and values stay together
)";

void AddExamples(Random& r, OpCases& cases) {
  for (const bool causal : {false, true}) {
    AttrMap attrs = {{"heads", int64_t{4}}, {"kv_heads", int64_t{2}}, {"causal", causal}};
    if (causal) attrs.Set("window", int64_t{2});
    const Dims dims = {3, 5, 8}, kv_dims = {3, 5, 4};
    Tensors in = {r.Uniform(dims), r.Uniform(kv_dims), r.Uniform(kv_dims)};
    cases.push_back({"attention", "groups", attrs, in});
    const Tensors out = *Reference("attention", attrs, in);
    cases.push_back({"attention_grad", "groups", attrs, {r.Uniform(dims), in[0], in[1], in[2], out[0], out[1]}, 1e-4});
  }
  // Heads that two axes may share (4 on [2,2], 12 on [4,3]), and heads that few axes divide.
  for (const auto& [dims, heads] :
       std::vector<std::pair<Dims, int64_t>>{{{5, 4, 12}, 4}, {{2, 3, 24}, 12}, {{3, 5, 9}, 3}}) {
    for (const bool causal : {false, true}) {
      const AttrMap attrs = {{"heads", heads}, {"causal", causal}};
      Tensors in = {r.Uniform(dims), r.Uniform(dims), r.Uniform(dims)};
      cases.push_back({"attention", "small", attrs, in});
      const Tensors out = *Reference("attention", attrs, in);
      cases.push_back({"attention_grad", "small", attrs, {r.Uniform(dims), in[0], in[1], in[2], out[0], out[1]}, 1e-4});
    }
  }
}

void AddEdges(Random& r, OpCases& cases) {
  struct Geometry {
    int64_t b, t, heads, d;
    int64_t kv_heads = 0, window = 0, keys = 0;  // 0: heads, none, t
  };
  for (const Geometry& g :
       {Geometry{2, 5, 3, 4}, Geometry{1, 1, 1, 1}, Geometry{2, 64, 2, 32}, Geometry{1, 100, 2, 40},
        Geometry{1, 33, 1, 16}, Geometry{0, 8, 2, 4}, Geometry{2, 0, 2, 4}, Geometry{3, 130, 1, 64},
        Geometry{1, 47, 3, 19}, Geometry{2, 5, 6, 4, 2}, Geometry{2, 70, 4, 32, 1}, Geometry{1, 100, 6, 40, 3},
        Geometry{1, 150, 2, 32, 1, 1}, Geometry{2, 150, 2, 16, 2, 37}, Geometry{1, 131, 4, 64, 2, 64},
        Geometry{1, 40, 2, 8, 1, 100}, Geometry{2, 33, 2, 16, 1, 0, 5}, Geometry{1, 5, 4, 32, 4, 0, 133}}) {
    const int64_t kv_heads = g.kv_heads > 0 ? g.kv_heads : g.heads, keys = g.keys > 0 ? g.keys : g.t;
    for (const bool causal : {false, true}) {
      if (causal ? keys != g.t : g.window > 0) continue;
      AttrMap attrs = {{"heads", g.heads}, {"causal", causal}};
      if (g.kv_heads > 0) attrs.Set("kv_heads", g.kv_heads);
      if (g.window > 0) attrs.Set("window", g.window);
      if (g.kv_heads == 3) attrs.Set("scale", 0.3);
      const Dims dims = {g.b, g.t, g.heads * g.d}, kv_dims = {g.b, keys, kv_heads * g.d};
      Tensors in = {Rounded(r.Uniform(dims)), Rounded(r.Uniform(kv_dims)), Rounded(r.Uniform(kv_dims))};
      cases.push_back({"attention", "geometry", attrs, in, 5e-6});
      const Tensors out = *Reference("attention", attrs, in);
      // Of as many heads dk and dv are sums.
      const double most = std::sqrt(static_cast<double>(kv_heads) / static_cast<double>(g.heads));
      cases.push_back({"attention_grad",
                       "geometry",
                       attrs,
                       {r.Uniform(dims, -most, most), in[0], in[1], in[2], out[0], out[1]},
                       5e-5});
    }
  }
}

void AddExtremes(Random& r, OpCases& cases) {
  for (const bool causal : {false, true}) {
    cases.push_back({"attention",
                     "sharp",
                     {{"heads", int64_t{3}}, {"causal", causal}},
                     {r.Uniform({3, 5, 9}, -8, 8), r.Uniform({3, 5, 9}, -8, 8), r.Uniform({3, 5, 9})}});
  }
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {
      .types = kTypes, .signatures = kSignatures, .examples = AddExamples, .edges = AddEdges, .extremes = AddExtremes};
  facts.reference = {{"attention", Attention}, {"attention_grad", AttentionGrad}};
  // 4 heads cannot be cut 8 times.
  facts.wrong_signatures = {{"attention", {2, 4}, {"S(2),S(2),S(2)->S(2),S(1)", "S(2),S(2),S(2)->S(2),S(1)"}}};
  facts.dsl = {{[](Operands d) {
                  return Attention(d.F32({2, 5, 6}), d.F32({2, 5, 6}), d.F32({2, 5, 6}), 3, true);
                },
                "attention", "f32[2,5,6]"}};
  facts.without_gradient = {{"attention_grad", "a gradient itself"}};
  return facts;
}

}  // namespace oneflow::testing::AttentionOps
