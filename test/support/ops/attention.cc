// What tests know of attention and of its gradient.
#include <cmath>
#include <functional>

#include "kernels/random.h"
#include "oneflow_core/functional.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::AttentionOps {
namespace {

// The geometry of attention and the index of an element of a head.
struct Heads {
  Heads(const RefCall& call, size_t query)
      : q(call.in[query]),
        k(call.in[query + 1]),
        b(q.dims[0]),
        t(q.dims[1]),
        s(k.dims[1]),
        c(q.dims[2]),
        e(k.dims[2]),
        n(call.attrs.Int("heads")),
        m(call.attrs.Int("kv_heads", n)),
        d(c / n),
        window(call.attrs.Int("window")),
        share(call.attrs.Int("share")),
        causal(call.attrs.Bool("causal")),
        scale(call.attrs.Double("scale", 1 / std::sqrt(static_cast<double>(d)))),
        soft_cap(call.attrs.Double("soft_cap")),
        dropout(call.attrs.Double("dropout")),
        drawn_by(RandomKey(call.attrs.Int("seed"), call.attrs.Int("key"))),
        context(call.context) {
    const size_t plain = query == 0 ? 3 : 6;
    if (call.in.size() < plain + 2) return;
    query_documents = &call.in[plain];
    key_documents = &call.in[plain + 1];
  }
  int64_t At(int64_t batch, int64_t head, int64_t token, int64_t i) const {
    return (batch * t + token) * c + head * d + i;
  }
  int64_t KvAt(int64_t batch, int64_t head, int64_t key, int64_t i) const {
    return (batch * s + key) * e + head / (n / m) * d + i;
  }
  int64_t LseAt(int64_t batch, int64_t head, int64_t token) const { return (batch * n + head) * t + token; }
  // Of a query's row and a key's.
  double Dot(const RefTensor& x, int64_t i, const RefTensor& y, int64_t j, int64_t batch, int64_t head) const {
    double dot = 0;
    for (int64_t k = 0; k < d; ++k) dot += x.values[At(batch, head, i, k)] * y.values[KvAt(batch, head, j, k)];
    return dot;
  }
  double Score(int64_t batch, int64_t head, int64_t i, int64_t j) const {
    const double score = Dot(q, i, k, j, batch, head) * scale;
    return soft_cap > 0 ? soft_cap * std::tanh(score / soft_cap) : score;
  }
  // Of the score by the product.
  double Slope(double score) const {
    const double share = soft_cap > 0 ? score / soft_cap : 0;
    return scale * (1 - share * share);
  }
  // What a probability is multiplied by.
  double Kept(int64_t batch, int64_t head, int64_t i, int64_t j) const {
    if (dropout == 0) return 1;
    const int64_t index = context.micro_batch * b * n * t * s + LseAt(batch, head, i) * s + j;
    return ToUniform(RandomBits(drawn_by, context.step, index)) >= static_cast<float>(dropout) ? 1 / (1 - dropout) : 0;
  }
  // Whether the head is of the share that sees keys.
  bool IsSharing(int64_t head) const { return share == 0 || (share == 1) == (head < n / 2); }
  bool Sees(int64_t batch, int64_t i, int64_t j) const {
    if (causal && (j > i || (window > 0 && j + window <= i))) return false;
    return query_documents == nullptr || query_documents->values[batch * t + i] == key_documents->values[batch * s + j];
  }
  // body(batch, head, query, the keys that it sees).
  void ForEach(const std::function<void(int64_t, int64_t, int64_t, const std::vector<int64_t>&)>& body) const {
    for (int64_t batch = 0; batch < b; ++batch) {
      for (int64_t head = 0; head < n; ++head) {
        for (int64_t i = 0; i < t; ++i) {
          std::vector<int64_t> seen;
          for (int64_t j = 0; j < s && IsSharing(head); ++j) {
            if (Sees(batch, i, j)) seen.push_back(j);
          }
          body(batch, head, i, seen);
        }
      }
    }
  }
  const RefTensor &q, &k;
  int64_t b, t, s, c, e, n, m, d, window, share;
  bool causal;
  double scale, soft_cap, dropout;
  uint64_t drawn_by;
  RefContext context;
  const RefTensor *query_documents = nullptr, *key_documents = nullptr;
};

Tensors Attention(RefCall& c) {
  const RefTensor& v = c.in[2];
  const Heads h(c, 0);
  RefTensor out = Zeros(h.q.dims), lse = Zeros({h.b, h.n, h.t});
  h.ForEach([&](int64_t batch, int64_t head, int64_t i, const std::vector<int64_t>& seen) {
    std::vector<double> s;
    for (const int64_t j : seen) s.push_back(h.Score(batch, head, i, j));
    const double total = seen.empty() ? -kInfinity : LogSumExp(s.data(), static_cast<int64_t>(s.size()));
    lse.values[h.LseAt(batch, head, i)] = total;
    for (size_t at = 0; at < seen.size(); ++at) {
      const double p = std::exp(s[at] - total) * h.Kept(batch, head, i, seen[at]);
      for (int64_t x = 0; x < h.d; ++x) {
        out.values[h.At(batch, head, i, x)] += p * v.values[h.KvAt(batch, head, seen[at], x)];
      }
    }
  });
  return {out, lse};
}

Tensors AttentionGrad(RefCall& c) {
  const RefTensor &dout = c.in[0], &q = c.in[1], &k = c.in[2], &v = c.in[3], &out = c.in[4], &lse = c.in[5];
  const RefTensor* const dlse = c.in.size() % 2 == 1 ? &c.in.back() : nullptr;
  const Heads h(c, 1);
  RefTensor dq = Zeros(q.dims), dk = Zeros(k.dims), dv = dk;
  h.ForEach([&](int64_t batch, int64_t head, int64_t i, const std::vector<int64_t>& seen) {
    double mean = dlse == nullptr ? 0 : -dlse->values[h.LseAt(batch, head, i)];
    for (int64_t x = 0; x < h.d; ++x) {
      mean += dout.values[h.At(batch, head, i, x)] * out.values[h.At(batch, head, i, x)];
    }
    for (const int64_t j : seen) {
      const double score = h.Score(batch, head, i, j), kept = h.Kept(batch, head, i, j);
      const double p = std::exp(score - lse.values[h.LseAt(batch, head, i)]);
      const double ds = p * (kept * h.Dot(dout, i, v, j, batch, head) - mean) * h.Slope(score);
      for (int64_t x = 0; x < h.d; ++x) {
        const int64_t at_i = h.At(batch, head, i, x), at_j = h.KvAt(batch, head, j, x);
        dv.values[at_j] += p * kept * dout.values[at_i];
        dk.values[at_j] += ds * q.values[at_i];
        dq.values[at_i] += ds * k.values[at_j];
      }
    }
  });
  return {dq, dk, dv};
}

// Of a head without keys on one side, and on both.
Tensors MergeAttention(RefCall& c) {
  const RefTensor &a = c.in[0], &lse_a = c.in[1], &b = c.in[2], &lse_b = c.in[3];
  RefTensor out = Zeros(a.dims), lse = Zeros(lse_a.dims);
  const int64_t heads = lse_a.dims[1], tokens = lse_a.dims[2], d = heads == 0 ? 0 : a.dims[2] / heads;
  for (int64_t i = 0; i < lse.count(); ++i) {
    const int64_t token = i % tokens, head = i / tokens % heads, sample = i / tokens / heads;
    const double most = std::max(lse_a.values[i], lse_b.values[i]);
    if (most == -kInfinity) {
      lse.values[i] = most;
      continue;
    }
    const double of_a = std::exp(lse_a.values[i] - most), of_b = std::exp(lse_b.values[i] - most);
    lse.values[i] = most + std::log(of_a + of_b);
    const int64_t first = (sample * tokens + token) * a.dims[2] + head * d;
    for (int64_t x = first; x < first + d; ++x) {
      out.values[x] = (of_a * a.values[x] + of_b * b.values[x]) / (of_a + of_b);
    }
  }
  return {out, lse};
}

constexpr const char kTypes[] = R"(
merge_attention(f32[2,5,6] f32[2,3,5] f32[2,5,6] f32[2,3,5]) = f32[2,5,6] f32[2,3,5]
merge_attention(f32[2,5,6] f32[2,3,5] f32[2,5,6] f32[2,3,4]) ! lse_a is f32[2,3,5], lse_b is f32[2,3,4]; they must be
    the same
merge_attention(f32[2,5,6] f32[2,4,5] f32[2,5,6] f32[2,4,5]) ! lse_a is f32[2,4,5], of 4 heads, which must divide the
    last dimension of out_a, which is f32[2,5,6]
merge_attention(f32[2,5,6] f32[2,3,4] f32[2,5,6] f32[2,3,4]) ! lse_a is f32[2,3,4] but out_a, which is f32[2,5,6], needs
    f32[2,3,5]
merge_attention(bf16[2,5,6] f32[2,3,5] bf16[2,5,6] f32[2,3,5]) ! out_a is bf16[2,5,6] but must be f32
attention(f32[2,5,6] f32[2,5,6] f32[2,5,6]) {heads=3 share=3} ! attribute 'share' is 3 but must be in [0, 2]
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
attention(f32[2,5,6] f32[2,0,6] f32[2,0,6]) {heads=3} = f32[2,5,6] f32[2,3,5]
attention(f32[2,5,6] f32[2,4,6] f32[2,4,6] i32[2,5] i32[2,4]) {heads=3 soft_cap=30.0 dropout=0.1 key=drop seed=1} =
    f32[2,5,6] f32[2,3,5]
attention(f32[2,5,6] f32[2,5,6] f32[2,5,6] i32[2,5]) {heads=3} ! takes 3 inputs (q, k, v) but is given 4
attention(f32[2,5,6] f32[2,4,6] f32[2,4,6] i32[2,5] i32[2,5]) {heads=3} ! key_documents is i32[2,5] but k, which is
    f32[2,4,6], needs i32[2,4]
attention(f32[2,5,6] f32[2,5,6] f32[2,5,6]) {heads=3 soft_cap=-1.0} ! attribute 'soft_cap' is -1 but must not be
    negative
attention(f32[2,5,6] f32[2,5,6] f32[2,5,6]) {heads=3 dropout=1.0} ! attribute 'dropout' is 1 but must be in [0, 1)
attention(f32[2,5,6] f32[2,5,6] f32[2,5,6]) {heads=4} ! attribute 'heads' is 4 but must divide the last dimension of q,
    which is f32[2,5,6]
attention(f32[2,5,6] f32[2,5,6] f32[2,5,6]) {heads=0} ! attribute 'heads' is 0 but must be at least 1
attention(f32[5,6] f32[5,6] f32[5,6]) {heads=3} ! q is f32[5,6] but must have 3 dimensions
attention_grad(f32[2,5,6] f32[2,5,6] f32[2,5,6] f32[2,5,6] f32[2,5,6] f32[2,3,5]) {heads=3} = f32[2,5,6] f32[2,5,6]
    f32[2,5,6]
attention_grad(f32[2,5,6] f32[2,5,6] f32[2,5,6] f32[2,5,6] f32[2,5,6] f32[2,5,3]) {heads=3} ! lse is f32[2,5,3] but q,
    which is f32[2,5,6], needs f32[2,3,5]
attention_grad(f32[2,5,6] f32[2,5,6] f32[2,4,6] f32[2,4,6] f32[2,5,6] f32[2,3,5] i32[2,5] i32[2,4] f32[2,3,5])
    {heads=3 dropout=0.1 key=drop} = f32[2,5,6] f32[2,4,6] f32[2,4,6]
attention_grad(f32[2,5,6] f32[2,5,6] f32[2,5,6] f32[2,5,6] f32[2,5,6] f32[2,3,5] f32[2,5,3]) {heads=3} ! dlse is
    f32[2,5,3], lse is f32[2,3,5]; they must be the same
attention_grad(f32[2,5,7] f32[2,5,6] f32[2,5,6] f32[2,5,6] f32[2,5,6] f32[2,3,5]) {heads=3} ! dout is f32[2,5,7], q is
    f32[2,5,6]; they must be the same
)";

constexpr const char kSignatures[] = R"(
attention(f32[4,8,16], f32[4,8,16], f32[4,8,16]) {heads=4} | S(0),S(0),S(0)->S(0),S(0) S(2),S(2),S(2)->S(2),S(1)
    | S(1),S(1),S(1)->S(1),S(2) | - | fused_attention_ops.cpp | batch and heads; the axis must divide the heads, there
    too; tokens in a ring
attention(f32[4,8,32], f32[4,8,16], f32[4,8,16]) {heads=8, kv_heads=4} | S(0),S(0),S(0)->S(0),S(0)
    S(2),S(2),S(2)->S(2),S(1) | S(1),S(1),S(1)->S(1),S(2) | - | fused_attention_ops.cpp | heads that share keys and
    values stay together
attention(f32[4,8,16], f32[4,8,16], f32[4,8,16], i32[4,8], i32[4,8]) {heads=4} | S(0),S(0),S(0),S(0),S(0)->S(0),S(0)
    S(2),S(2),S(2),B,B->S(2),S(1) | S(1),S(1),S(1),S(1),S(1)->S(1),S(2) | - | fused_attention_ops.cpp | OneFlow has no
    documents; all heads have the same
merge_attention(f32[4,8,16], f32[4,4,8], f32[4,8,16], f32[4,4,8]) | - | S(0),S(0),S(0),S(0)->S(0),S(0)
    S(1),S(2),S(1),S(2)->S(1),S(2) S(2),S(1),S(2),S(1)->S(2),S(1) | - | - | every head of every query
)";

// A case, and that of its gradient. `most`: of the gradients that arrive; `flows`: through lse too.
void AddPair(Random& r, const std::string& what, const AttrMap& attrs, const Tensors& in, const RefContext& context,
             OpCases& cases, double most = 2, double tolerance = 2e-6, double of_gradient = 1e-4, bool flows = false) {
  cases.push_back({"attention", what, attrs, in, tolerance, context});
  Tensors operands = in;
  const Tensors out = *Reference("attention", attrs, operands, context);
  operands = {r.Uniform(in[0].dims, -most, most), in[0], in[1], in[2], out[0], out[1]};
  operands.insert(operands.end(), in.begin() + 3, in.end());
  if (flows) operands.push_back(r.Uniform(out[1].dims, -most, most));
  cases.push_back({"attention_grad", what, attrs, operands, of_gradient, context});
}

// Numbers of documents that follow one another, of `count` tokens of each sample.
RefTensor Documents(Random& r, int64_t samples, int64_t count, double share_of_ends) {
  RefTensor documents = Zeros({samples, count}, DType::kInt32);
  const RefTensor draws = r.Uniform({samples, count}, 0, 1);
  for (int64_t sample = 0; sample < samples; ++sample) {
    for (int64_t i = 1; i < count; ++i) {
      const int64_t at = sample * count + i;
      documents.values[at] = documents.values[at - 1] + (draws.values[at] < share_of_ends ? 1 : 0);
    }
  }
  return documents;
}

// `empty`: some sides have no keys.
void AddMerges(Random& r, bool empty, OpCases& cases) {
  for (const Dims& dims : std::vector<Dims>{{2, 5, 6}, {1, 3, 64}, {0, 4, 8}, {2, 0, 4}}) {
    const int64_t heads = 2;
    Tensors in = {r.Uniform(dims), r.Uniform({dims[0], heads, dims[1]}, -3, 3), r.Uniform(dims),
                  r.Uniform({dims[0], heads, dims[1]}, -90, 90)};
    for (int64_t i = 0; empty && i < in[1].count(); i += 3) {
      in[1].values[i] = -kInfinity;
      if (i % 2 == 0) in[3].values[i] = -kInfinity;
    }
    cases.push_back({"merge_attention", empty ? "keys on no side" : "both sides", {}, in, 2e-6});
  }
}

void AddExamples(Random& r, OpCases& cases) {
  AddMerges(r, /*empty=*/false, cases);
  for (const bool causal : {false, true}) {
    AttrMap attrs = {{"heads", int64_t{4}}, {"kv_heads", int64_t{2}}, {"causal", causal}};
    if (causal) attrs.Set("window", int64_t{2});
    AddPair(r, "groups", attrs, {r.Uniform({3, 5, 8}), r.Uniform({3, 5, 4}), r.Uniform({3, 5, 4})}, {}, cases);
  }
  AddPair(r, "lse", {{"heads", int64_t{2}}, {"causal", true}},
          {r.Uniform({2, 4, 4}), r.Uniform({2, 4, 4}), r.Uniform({2, 4, 4})}, {}, cases, 2, 2e-6, 1e-4, true);
  AttrMap drawn = {{"heads", int64_t{4}}, {"kv_heads", int64_t{2}}, {"causal", false},  {"soft_cap", 1.5},
                   {"dropout", 0.3},      {"seed", int64_t{3}},     {"key", int64_t{8}}};
  const RefTensor documents = Documents(r, 2, 6, 0.4);
  AddPair(r, "capped and dropped", drawn, {r.Uniform({2, 6, 8}), r.Uniform({2, 6, 4}), r.Uniform({2, 6, 4})}, {},
          cases);
  drawn.Set("causal", true);
  AddPair(r, "documents", drawn,
          {r.Uniform({2, 6, 8}), r.Uniform({2, 6, 4}), r.Uniform({2, 6, 4}), documents, documents}, {}, cases, 2, 2e-6,
          1e-4, true);
  // Heads that two axes may share (4 on [2,2], 12 on [4,3]), and heads that few axes divide.
  for (const auto& [dims, heads] :
       std::vector<std::pair<Dims, int64_t>>{{{5, 4, 12}, 4}, {{2, 3, 24}, 12}, {{3, 5, 9}, 3}}) {
    for (const bool causal : {false, true}) {
      AddPair(r, "small", {{"heads", heads}, {"causal", causal}}, {r.Uniform(dims), r.Uniform(dims), r.Uniform(dims)},
              {}, cases);
    }
  }
}

// Scores that are capped, hidden and dropped, also of more keys than a kernel takes at a time; queries of documents
// that no key is of.
void AddScoreEdges(Random& r, OpCases& cases) {
  for (const bool causal : {false, true}) {
    for (const int64_t tokens : {7, 64, 140}) {
      const int64_t keys = causal ? tokens : tokens + 30, d = tokens == 64 ? 32 : 12;
      const int64_t samples = tokens == 7 ? 2 : 1, kv_heads = samples, heads = 2 * kv_heads;
      AttrMap attrs = {{"heads", heads}, {"kv_heads", kv_heads}, {"causal", causal},   {"soft_cap", 2.0},
                       {"dropout", 0.2}, {"seed", int64_t{5}},   {"key", int64_t{-77}}};
      Tensors in = {Rounded(r.Uniform({samples, tokens, heads * d})), Rounded(r.Uniform({samples, keys, kv_heads * d})),
                    Rounded(r.Uniform({samples, keys, kv_heads * d}))};
      AddPair(r, "dropped", attrs, in, {5, 3}, cases, 0.5, 5e-6, 5e-5);
      in.push_back(Documents(r, samples, tokens, 0.1));
      in.push_back(causal ? in.back() : Documents(r, samples, keys, 0.2));
      if (causal) attrs.Set("window", tokens / 2);
      if (!causal) {
        for (int64_t i = 0; i < in[3].count(); i += 5) in[3].values[i] = -1;  // which no key is of
      }
      AddPair(r, "documents", attrs, in, {1LL << 40, 0}, cases, 0.5, 5e-6, 5e-5, true);
      attrs = {{"heads", heads}, {"kv_heads", kv_heads}, {"causal", causal}};
      AddPair(r, "documents alone", attrs, in, {}, cases, 0.5, 5e-6, 5e-5);
    }
  }
}

// Halves of the heads, of an odd number of groups too.
void AddShares(Random& r, OpCases& cases) {
  for (const int64_t kv_heads : {1, 2, 3}) {
    for (const int64_t share : {1, 2}) {
      const int64_t heads = 2 * kv_heads, d = kv_heads == 2 ? 32 : 8;
      const AttrMap attrs = {{"heads", heads}, {"kv_heads", kv_heads}, {"causal", share == 1}, {"share", share}};
      AddPair(r, "share", attrs,
              {Rounded(r.Uniform({2, 40, heads * d})), Rounded(r.Uniform({2, 40, kv_heads * d})),
               Rounded(r.Uniform({2, 40, kv_heads * d}))},
              {}, cases, 1, 5e-6, 5e-5);
    }
  }
}

void AddEdges(Random& r, OpCases& cases) {
  struct Geometry {
    int64_t b, t, heads, d;
    int64_t kv_heads = 0, window = 0, keys = 0;  // 0: heads, none, t
  };
  constexpr int64_t kNone = -1;
  for (const Geometry& g : {Geometry{2, 5, 3, 4},
                            Geometry{1, 1, 1, 1},
                            Geometry{2, 64, 2, 32},
                            Geometry{1, 70, 2, 40},
                            Geometry{1, 33, 1, 16},
                            Geometry{0, 8, 2, 4},
                            Geometry{2, 0, 2, 4},
                            Geometry{1, 130, 1, 64},
                            Geometry{1, 47, 3, 19},
                            Geometry{2, 5, 6, 4, 2},
                            Geometry{1, 70, 4, 32, 1},
                            Geometry{1, 37, 6, 40, 3},
                            Geometry{1, 100, 2, 32, 1, 1},
                            Geometry{1, 150, 2, 16, 2, 37},
                            Geometry{1, 131, 2, 64, 1, 64},
                            Geometry{1, 40, 2, 8, 1, 100},
                            Geometry{1, 270, 1, 20},
                            Geometry{1, 20, 2, 16, 2, 0, 300},
                            Geometry{2, 33, 2, 16, 1, 0, 5},
                            Geometry{1, 5, 4, 32, 2, 0, 133},
                            Geometry{2, 5, 2, 4, 2, 0, kNone},
                            Geometry{2, kNone, 2, 4, 2, 0, 5}}) {
    const auto count = [](int64_t n, int64_t else_n) { return n == kNone ? 0 : n > 0 ? n : else_n; };
    const int64_t kv_heads = count(g.kv_heads, g.heads), tokens = count(g.t, 0), keys = count(g.keys, tokens);
    for (const bool causal : {false, true}) {
      if (causal ? keys != tokens : g.window > 0) continue;
      AttrMap attrs = {{"heads", g.heads}, {"causal", causal}};
      if (g.kv_heads > 0) attrs.Set("kv_heads", g.kv_heads);
      if (g.window > 0) attrs.Set("window", g.window);
      if (g.kv_heads == 3) attrs.Set("scale", 0.3);
      const Dims dims = {g.b, tokens, g.heads * g.d}, kv_dims = {g.b, keys, kv_heads * g.d};
      // Of as many heads dk and dv are sums.
      const double most = std::sqrt(static_cast<double>(kv_heads) / static_cast<double>(g.heads));
      AddPair(r, "geometry", attrs,
              {Rounded(r.Uniform(dims)), Rounded(r.Uniform(kv_dims)), Rounded(r.Uniform(kv_dims))}, {}, cases, most,
              5e-6, 5e-5, g.t % 2 == 0);
    }
  }
  AddScoreEdges(r, cases);
  AddShares(r, cases);
  AddMerges(r, /*empty=*/true, cases);
}

void AddExtremes(Random& r, OpCases& cases) {
  for (const bool causal : {false, true}) {
    cases.push_back({"attention",
                     "sharp",
                     {{"heads", int64_t{3}}, {"causal", causal}},
                     {r.Uniform({3, 5, 9}, -8, 8), r.Uniform({3, 5, 9}, -8, 8), r.Uniform({3, 5, 9})}});
    cases.push_back({"attention",
                     "sharp and long",
                     {{"heads", int64_t{1}}, {"causal", causal}},
                     {r.Uniform({1, 270, 4}, -4, 4), r.Uniform({1, 270, 4}, -4, 4), r.Uniform({1, 270, 4})}});
  }
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {
      .types = kTypes, .signatures = kSignatures, .examples = AddExamples, .edges = AddEdges, .extremes = AddExtremes};
  facts.reference = {{"attention", Attention}, {"attention_grad", AttentionGrad}, {"merge_attention", MergeAttention}};
  // 4 heads cannot be cut 8 times; a rank's own keys are not all.
  facts.wrong_signatures = {{"attention", {2, 4}, {"S(2),S(2),S(2)->S(2),S(1)", "S(2),S(2),S(2)->S(2),S(1)"}},
                            {"attention", {2}, {"S(1),S(1),S(1)->S(1),S(2)"}}};
  facts.dsl = {{[](Operands d) {
                  return Attention(d.F32({2, 5, 6}), d.F32({2, 5, 6}), d.F32({2, 5, 6}), 3, true);
                },
                "attention", "f32[2,5,6]"},
               {[](Operands d) {
                  return AttentionWithLse(d.F32({2, 5, 6}), d.F32({2, 4, 6}), d.F32({2, 4, 6}), {.heads = 3},
                                          {d.I32({2, 5}), d.I32({2, 4})})
                      .lse;
                },
                "attention", "f32[2,3,5]"}};
  facts.without_gradient = {{"attention_grad", "a gradient itself"},
                            {"merge_attention", "the compiler makes it, of gradients too"}};
  return facts;
}

}  // namespace oneflow::testing::AttentionOps
