// What tests know of attention and of its gradient.
#include <cmath>
#include <functional>

#include "oneflow_core/functional.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::AttentionOps {
namespace {

// The geometry of attention and the index of an element of a head.
struct Heads {
  Heads(const RefTensor& q, const AttrMap& attrs)
      : b(q.dims[0]), t(q.dims[1]), c(q.dims[2]), n(attrs.Int("heads")), d(c / n), causal(attrs.Bool("causal")) {}
  int64_t At(int64_t batch, int64_t head, int64_t token, int64_t i) const {
    return (batch * t + token) * c + head * d + i;
  }
  double Dot(const RefTensor& x, int64_t i, const RefTensor& y, int64_t j, int64_t batch, int64_t head) const {
    double dot = 0;
    for (int64_t k = 0; k < d; ++k) dot += x.values[At(batch, head, i, k)] * y.values[At(batch, head, j, k)];
    return dot;
  }
  // body(batch, head, query, number of visible keys).
  void ForEach(const std::function<void(int64_t, int64_t, int64_t, int64_t)>& body) const {
    for (int64_t batch = 0; batch < b; ++batch) {
      for (int64_t head = 0; head < n; ++head) {
        for (int64_t i = 0; i < t; ++i) body(batch, head, i, causal ? i + 1 : t);
      }
    }
  }
  int64_t b, t, c, n, d;
  bool causal;
};

Tensors Attention(RefCall& c) {
  const RefTensor &q = c.in[0], &k = c.in[1], &v = c.in[2];
  const Heads h(q, c.attrs);
  RefTensor out = Zeros(q.dims), lse = Zeros({h.b, h.n, h.t});
  h.ForEach([&](int64_t batch, int64_t head, int64_t i, int64_t keys) {
    std::vector<double> s(keys);
    for (int64_t j = 0; j < keys; ++j) s[j] = h.Dot(q, i, k, j, batch, head) / std::sqrt(static_cast<double>(h.d));
    const double total = LogSumExp(s.data(), keys);
    lse.values[(batch * h.n + head) * h.t + i] = total;
    for (int64_t j = 0; j < keys; ++j) {
      for (int64_t x = 0; x < h.d; ++x)
        out.values[h.At(batch, head, i, x)] += std::exp(s[j] - total) * v.values[h.At(batch, head, j, x)];
    }
  });
  return {out, lse};
}

Tensors AttentionGrad(RefCall& c) {
  const RefTensor &dout = c.in[0], &q = c.in[1], &k = c.in[2], &v = c.in[3], &out = c.in[4], &lse = c.in[5];
  const Heads h(q, c.attrs);
  const double scale = 1 / std::sqrt(static_cast<double>(h.d));
  RefTensor dq = Zeros(q.dims), dk = dq, dv = dq;
  h.ForEach([&](int64_t batch, int64_t head, int64_t i, int64_t keys) {
    const double mean = h.Dot(dout, i, out, i, batch, head);
    for (int64_t j = 0; j < keys; ++j) {
      const double p = std::exp(h.Dot(q, i, k, j, batch, head) * scale - lse.values[(batch * h.n + head) * h.t + i]);
      const double ds = p * (h.Dot(dout, i, v, j, batch, head) - mean) * scale;
      for (int64_t x = 0; x < h.d; ++x) {
        const int64_t at_i = h.At(batch, head, i, x), at_j = h.At(batch, head, j, x);
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
attention(f32[2,5,6] f32[2,4,6] f32[2,5,6]) {heads=3} ! q is f32[2,5,6], k is f32[2,4,6]; they must be the same
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
)";

void AddExamples(Random& r, OpCases& cases) {
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
  };
  for (const Geometry& g : {Geometry{2, 5, 3, 4}, Geometry{1, 1, 1, 1}, Geometry{2, 64, 2, 32}, Geometry{1, 100, 2, 40},
                            Geometry{1, 33, 1, 16}, Geometry{0, 8, 2, 4}, Geometry{2, 0, 2, 4}, Geometry{3, 130, 1, 64},
                            Geometry{1, 47, 3, 19}}) {
    for (const bool causal : {false, true}) {
      const AttrMap attrs = {{"heads", g.heads}, {"causal", causal}};
      const Dims dims = {g.b, g.t, g.heads * g.d};
      Tensors in = {Rounded(r.Uniform(dims)), Rounded(r.Uniform(dims)), Rounded(r.Uniform(dims))};
      cases.push_back({"attention", "geometry", attrs, in, 5e-6});
      const Tensors out = *Reference("attention", attrs, in);
      cases.push_back(
          {"attention_grad", "geometry", attrs, {r.Uniform(dims), in[0], in[1], in[2], out[0], out[1]}, 5e-5});
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
