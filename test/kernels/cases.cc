#include "test/kernels/cases.h"

#include <cmath>
#include <limits>

#include "test/kernels/harness.h"

namespace oneflow::testing {
namespace {

using Ints = std::vector<int64_t>;

RefTensor Scalar(double value, DType dtype = DType::kFloat32) {
  RefTensor x = Zeros({}, dtype);
  x.values[0] = value;
  return x;
}

Case InPlace(Case c, int input) {
  c.in_place = input;
  return c;
}

// `count` points from low to high.
RefTensor Grid(double low, double high, int64_t count) {
  RefTensor x = Zeros({count});
  for (int64_t i = 0; i < count; ++i)
    x.values[i] = low + (high - low) * static_cast<double>(i) / static_cast<double>(count - 1);
  return x;
}

void AddElementwise(Random& r, std::vector<Case>& cases) {
  for (const char* op : {"neg", "exp", "square", "tanh", "sigmoid", "relu", "gelu"}) {
    cases.push_back(InPlace({op, "odd size", {}, {r.Uniform({3, 37})}}, 0));
    cases.push_back({op, "empty", {}, {r.Uniform({0, 5})}});
    cases.push_back({op, "several threads", {}, {r.Uniform({300, 211})}});
  }
  for (const char* op : {"log", "sqrt", "rsqrt"}) {
    cases.push_back(InPlace({op, "odd size", {}, {r.Uniform({5, 13}, 0.01, 9)}}, 0));
    cases.push_back({op, "empty", {}, {r.Uniform({0})}});
  }
  cases.push_back({"exp", "from underflow to overflow", {}, {Grid(-87, 88, 20001)}, 5e-7});
  cases.push_back({"tanh", "where it saturates", {}, {Grid(-12, 12, 20001)}, 5e-7});
  cases.push_back({"gelu", "where it saturates", {}, {Grid(-12, 12, 20001)}, 1e-6});
  cases.push_back({"sigmoid", "where it saturates", {}, {Grid(-100, 100, 20001)}, 5e-7});
  cases.push_back({"gelu_grad", "where it saturates", {}, {r.Uniform({20001}), Grid(-12, 12, 20001)}, 2e-6});
  for (const char* op : {"relu_grad", "gelu_grad"}) {
    cases.push_back(InPlace({op, "odd size", {}, {r.Uniform({7, 31}), r.Uniform({7, 31})}}, 0));
    cases.push_back({op, "empty", {}, {r.Uniform({0}), r.Uniform({0})}});
  }
  for (const char* op : {"scale", "add_scalar"}) {
    cases.push_back(InPlace({op, "odd size", {{"alpha", -1.75}}, {r.Uniform({3, 37})}}, 0));
    cases.push_back({op, "empty", {{"alpha", 2.0}}, {r.Uniform({0})}});
  }
  const std::pair<Ints, Ints> shapes[] = {
      {{7, 37}, {7, 37}}, {{7, 37}, {37}},           {{7, 37}, {7, 1}},        {{7, 37}, {}},
      {{1, 37}, {7, 1}},  {{5}, {4, 3, 5}},          {{4, 1, 5}, {3, 1}},      {{0, 37}, {37}},
      {{}, {}},           {{2, 3, 4, 5}, {3, 1, 5}}, {{300, 211}, {300, 211}}, {{300, 211}, {1}}};
  for (const char* op : {"add", "sub", "mul", "div"}) {
    for (const auto& [a, b] : shapes) {
      RefTensor divisor = r.Uniform(b, 0.5, 3);  // far from zero, where a quotient has no error bound
      cases.push_back(InPlace({op, "broadcasting", {}, {r.Uniform(a), divisor}}, a == b ? 0 : -1));
    }
    cases.push_back(InPlace({op, "into the second", {}, {r.Uniform({9, 9}), r.Uniform({9, 9}, 0.5, 3)}}, 1));
  }
  for (int64_t n : {1, 2, 5}) {
    Case c = InPlace({"add_n", "several operands", {}, {}}, 0);
    for (int64_t i = 0; i < n; ++i) c.inputs.push_back(r.Uniform({11, 7}));
    cases.push_back(c);
  }
  cases.push_back({"add_n", "empty", {}, {r.Uniform({0}), r.Uniform({0})}});
  for (const auto& [dims, axis] : std::vector<std::pair<Ints, int64_t>>{{{3, 5, 37}, -1},
                                                                        {{6, 4}, 1},
                                                                        {{2, 5, 3, 7}, 1},
                                                                        {{4, 3}, 0},
                                                                        {{0, 4}, -1},
                                                                        {{2, 3, 0, 4}, 1},
                                                                        {{1000, 65}, -1},
                                                                        {{200, 3, 9, 9}, 1}}) {
    const int64_t n = dims[axis < 0 ? axis + dims.size() : axis];
    cases.push_back(InPlace({"bias_add", "axis", {{"axis", axis}}, {r.Uniform(dims), r.Uniform({n})}}, 0));
    cases.push_back({"bias_grad", "axis", {{"axis", axis}}, {r.Uniform(dims)}, 1e-5});
  }
  for (const DType from : kAllDTypes) {
    for (const DType to : kAllDTypes) {
      cases.push_back({"cast", "all pairs", {{"dtype", std::string(Name(to))}}, {r.Small({3, 19}, from)}, 0});
    }
  }
  cases.push_back({"cast", "rounding", {{"dtype", std::string("bf16")}}, {r.Uniform({999})}, 0});
  cases.push_back({"cast", "rounding", {{"dtype", std::string("f16")}}, {r.Uniform({999})}, 0});
  cases.push_back({"cast", "truncation", {{"dtype", std::string("i32")}}, {r.Uniform({999}, -1000, 1000)}, 0});
  for (const double rate : {0.0, 0.1, 0.5, 0.9}) {
    const AttrMap attrs = {{"rate", rate}, {"seed", int64_t{7}}, {"key", int64_t{-1234567890123}}};
    cases.push_back({"dropout", "odd size", attrs, {r.Uniform({3, 67})}, 2e-6, {5, 3}, 0});
    cases.push_back({"dropout", "several threads", attrs, {r.Uniform({211, 301})}, 2e-6, {1LL << 40, 0}});
    cases.push_back({"dropout", "empty", attrs, {r.Uniform({0, 4})}});
  }
}

void AddPlumbing(Random& r, std::vector<Case>& cases) {
  for (const DType dtype : kAllDTypes) {
    cases.push_back(
        {"constant", "value", {{"dtype", std::string(Name(dtype))}, {"shape", Ints{3, 7}}, {"value", 1.0}}, {}, 0});
    cases.push_back({"assign", "value", {}, {r.Small({3, 7}, dtype), r.Small({3, 7}, dtype)}, 0});
  }
  for (const DType dtype : kAllDTypes) {
    cases.push_back({"replica_digest", "dtypes", {{"shape", Ints{1}}}, {r.Small({3, 7}, dtype)}, 0});
    RefTensor digests = Zeros({2, 3}, DType::kInt32);
    digests.values.assign(6, -77);
    cases.push_back({"assert_replicas", "dtypes", {}, {r.Small({3, 7}, dtype), digests}, 0});
  }
  cases.push_back({"replica_digest", "empty", {{"shape", Ints{1, 1}}}, {r.Uniform({0, 3})}, 0});
  cases.push_back({"constant", "empty", {{"dtype", std::string("f32")}, {"shape", Ints{0}}, {"value", 1.0}}, {}, 0});
  cases.push_back({"increment", "scalar", {}, {r.Integers({}, 1 << 30, DType::kInt64)}, 0});
  for (const DType dtype : {DType::kFloat32, DType::kInt32, DType::kInt64}) {
    cases.push_back({"accumulate", "first micro-batch", {}, {r.Small({3, 7}, dtype)}, 0});
  }
}

void AddLayout(Random& r, std::vector<Case>& cases) {
  for (const DType dtype : kAllDTypes) {
    cases.push_back({"reshape", "dtypes", {{"shape", Ints{14, 3}}}, {r.Small({6, 7}, dtype)}, 0});
    cases.push_back({"transpose", "dtypes", {{"perm", Ints{1, 0}}}, {r.Small({5, 37}, dtype)}, 0});
    cases.push_back({"slice",
                     "dtypes",
                     {{"axis", int64_t{1}}, {"start", int64_t{2}}, {"size", int64_t{3}}},
                     {r.Small({4, 7, 3}, dtype)},
                     0});
    cases.push_back({"slice_grad",
                     "dtypes",
                     {{"axis", int64_t{1}}, {"start", int64_t{2}}, {"size", int64_t{7}}},
                     {r.Small({4, 3, 3}, dtype)},
                     0});
    cases.push_back({"concat",
                     "dtypes",
                     {{"axis", int64_t{1}}},
                     {r.Small({4, 2}, dtype), r.Small({4, 0}, dtype), r.Small({4, 5}, dtype)},
                     0});
    cases.push_back({"broadcast_to", "dtypes", {{"shape", Ints{3, 4, 5}}}, {r.Small({4, 1}, dtype)}, 0});
  }
  const std::pair<Ints, Ints> permutations[] = {{{4, 6, 5}, {2, 0, 1}},
                                                {{3, 4, 5, 6}, {0, 2, 1, 3}},
                                                {{3, 4, 5, 6}, {3, 2, 1, 0}},
                                                {{1, 5, 1}, {2, 1, 0}},
                                                {{0, 3}, {1, 0}},
                                                {{257, 131}, {1, 0}},
                                                {{7}, {0}},
                                                {{20, 33, 47}, {0, 2, 1}}};
  for (const auto& [dims, perm] : permutations)
    cases.push_back({"transpose", "permutation", {{"perm", perm}}, {r.Uniform(dims)}, 0});
  cases.push_back({"reshape", "to a scalar", {{"shape", Ints{}}}, {r.Uniform({1, 1})}, 0});
  cases.push_back({"reshape", "empty", {{"shape", Ints{5, 0}}}, {r.Uniform({0, 3})}, 0});
  cases.push_back({"slice",
                   "first dimension",
                   {{"axis", int64_t{0}}, {"start", int64_t{1}}, {"size", int64_t{2}}},
                   {r.Uniform({4, 37})},
                   0});
  cases.push_back({"slice",
                   "to nothing",
                   {{"axis", int64_t{0}}, {"start", int64_t{4}}, {"size", int64_t{0}}},
                   {r.Uniform({4, 37})},
                   0});
  cases.push_back({"slice_grad",
                   "from nothing",
                   {{"axis", int64_t{0}}, {"start", int64_t{4}}, {"size", int64_t{4}}},
                   {r.Uniform({0, 37})},
                   0});
  cases.push_back(
      {"concat", "first dimension", {{"axis", int64_t{0}}}, {r.Uniform({2, 3, 5}), r.Uniform({4, 3, 5})}, 0});
  cases.push_back({"broadcast_to", "from a scalar", {{"shape", Ints{37}}}, {r.Uniform({})}, 0});
  cases.push_back({"broadcast_to", "inner dimension", {{"shape", Ints{6, 37}}}, {r.Uniform({6, 1})}, 0});
  cases.push_back({"broadcast_to", "empty", {{"shape", Ints{0, 37}}}, {r.Uniform({37})}, 0});
}

void AddReductions(Random& r, std::vector<Case>& cases) {
  const std::pair<Ints, Ints> reductions[] = {{{5, 37}, {1}},         {{5, 37}, {0}},         {{5, 37}, {0, 1}},
                                              {{3, 4, 5, 6}, {1, 3}}, {{3, 4, 5, 6}, {0, 2}}, {{3, 4, 5, 6}, {1, 2}},
                                              {{3, 1, 5}, {1}},       {{5, 7}, {}},           {{}, {}},
                                              {{600, 301}, {0}},      {{600, 301}, {1}},      {{600, 301}, {0, 1}}};
  for (const char* op : {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min"}) {
    for (const auto& [dims, axes] : reductions) {
      for (const bool keepdims : {false, true}) {
        cases.push_back({op, "axes", {{"axes", axes}, {"keepdims", keepdims}}, {r.Uniform(dims)}, 1e-5});
      }
    }
  }
  cases.push_back({"reduce_sum", "nothing to sum", {{"axes", Ints{0}}}, {r.Uniform({0, 37})}});
  cases.push_back({"reduce_sum", "empty result", {{"axes", Ints{1}}}, {r.Uniform({0, 37})}});
  const std::pair<Ints, Ints> shapes[] = {{{4, 5, 37}, {5, 37}},    {{4, 5, 37}, {37}},       {{4, 5, 37}, {5, 1}},
                                          {{4, 5, 37}, {4, 1, 37}}, {{4, 5, 37}, {}},         {{5, 1}, {5, 1}},
                                          {{0, 37}, {37}},          {{200, 20, 37}, {20, 37}}};
  for (const auto& [from, to] : shapes) cases.push_back({"sum_to", "shapes", {{"shape", to}}, {r.Uniform(from)}, 1e-5});
  for (const int64_t n : {0, 1, 37, 100003}) cases.push_back({"square_sum", "size", {}, {r.Uniform({n})}});
}

void AddLinear(Random& r, std::vector<Case>& cases) {
  for (const bool transpose : {false, true}) {
    for (const auto& [rows, k, n] : std::vector<std::tuple<Ints, int64_t, int64_t>>{{{1}, 1, 1},
                                                                                    {{3, 5}, 7, 11},
                                                                                    {{33}, 128, 65},
                                                                                    {{0}, 4, 5},
                                                                                    {{4}, 0, 5},
                                                                                    {{4}, 5, 0},
                                                                                    {{}, 6, 7},
                                                                                    {{300}, 64, 96}}) {
      Ints x = rows, dy = rows;
      x.push_back(k);
      dy.push_back(n);
      cases.push_back({"matmul",
                       "shapes",
                       {{"transpose_b", transpose}},
                       {r.Uniform(x), r.Uniform(transpose ? Ints{n, k} : Ints{k, n})},
                       2e-5});
      cases.push_back({"matmul_wgrad", "shapes", {{"transpose", transpose}}, {r.Uniform(x), r.Uniform(dy)}, 5e-5});
    }
  }
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      for (const auto& [batch_a, batch_b] :
           std::vector<std::pair<Ints, Ints>>{{{2, 3}, {2, 3}}, {{}, {}}, {{4, 1}, {3}}, {{0}, {0}}, {{1}, {5}}}) {
        Ints a = batch_a, b = batch_b;
        a.insert(a.end(), {ta ? 9 : 7, ta ? 7 : 9});
        b.insert(b.end(), {tb ? 5 : 9, tb ? 9 : 5});
        cases.push_back({"batch_matmul",
                         "batches",
                         {{"transpose_a", ta}, {"transpose_b", tb}},
                         {r.Uniform(a), r.Uniform(b)},
                         1e-5});
      }
    }
  }
  for (const Ints& dims : {Ints{5, 37}, Ints{2, 3, 16}, Ints{1}, Ints{0, 4}, Ints{700, 129}}) {
    cases.push_back({"softmax", "rows", {}, {r.Uniform(dims, -9, 9)}, 1e-6, {}, 0});
    cases.push_back({"softmax_grad", "rows", {}, {r.Uniform(dims), r.Uniform(dims, 0, 1)}, 2e-5, {}, 0});
  }
  for (const Ints& rows : {Ints{5}, Ints{2, 3}, Ints{}, Ints{0}, Ints{700}}) {
    for (const int64_t c : {1, 16, 37, 128}) {
      Ints x = rows;
      x.push_back(c);
      cases.push_back({"layer_norm",
                       "rows",
                       {{"epsilon", 1e-5}},
                       {r.Uniform(x, 3, 9), r.Uniform({c}), r.Uniform({c})},
                       c == 1 ? 1e-3 : 2e-5});
      cases.push_back({"layer_norm_grad",
                       "rows",
                       {},
                       {r.Uniform(x), r.Uniform(x), r.Uniform({c}), r.Uniform(rows), r.Uniform(rows, 0.5, 1)},
                       1e-4});
    }
  }
  for (const Ints& ids : {Ints{11}, Ints{2, 3}, Ints{0}, Ints{}, Ints{900}}) {
    for (const int64_t h : {1, 37, 64}) {
      Ints dy = ids;
      dy.push_back(h);
      cases.push_back({"embedding", "indices", {}, {r.Uniform({13, h}), r.Integers(ids, 13)}, 0});
      cases.push_back(
          {"embedding_grad", "indices", {{"rows", int64_t{13}}}, {r.Uniform(dy), r.Integers(ids, 13)}, 2e-5});
    }
  }
  for (const Ints& rows : {Ints{11}, Ints{2, 3}, Ints{0}, Ints{700}}) {
    for (const int64_t c : {1, 10, 256}) {
      Ints logits = rows;
      logits.push_back(c);
      cases.push_back({"softmax_cross_entropy", "rows", {}, {r.Uniform(logits, -9, 9), r.Integers(rows, c)}, 2e-6});
      cases.push_back({"softmax_cross_entropy_grad",
                       "rows",
                       {},
                       {r.Uniform(rows), r.Uniform(logits, -3, 0), r.Integers(rows, c), r.Uniform(rows, 0, 3)},
                       2e-6});
      cases.push_back({"top1_correct", "rows", {}, {r.Integers(logits, 3), r.Integers(rows, c)}, 0});  // many ties
      cases.back().inputs[0].dtype = DType::kFloat32;
    }
  }
}

// The largest element of each row, as the kernels see it.
RefTensor MaxOfRows(const RefTensor& x) {
  std::vector<RefTensor> in = {Rounded(x)};
  return (*Reference("reduce_max", {{"axes", Ints{static_cast<int64_t>(x.dims.size()) - 1}}}, in))[0];
}

void AddSoftmaxParts(Random& r, std::vector<Case>& cases) {
  for (const Ints& rows : {Ints{11}, Ints{2, 3}, Ints{}, Ints{0}, Ints{700}}) {
    for (const int64_t c : {1, 10, 256}) {
      Ints dims = rows;
      dims.push_back(c);
      const RefTensor x = r.Uniform(dims, -9, 9), m = MaxOfRows(x), labels = r.Integers(rows, c);
      cases.push_back({"softmax_sums", "rows", {}, {x, labels, m}, 5e-6});
      cases.push_back({"exp_sum", "rows", {}, {x, m}, 5e-6});
      cases.push_back({"softmax_apply", "rows", {}, {x, m, r.Uniform(rows, 1, 9)}, 5e-6, {}, 0});
      cases.push_back({"row_dot", "rows", {}, {x, r.Uniform(dims)}, 5e-5});
      cases.push_back({"softmax_grad_apply", "rows", {}, {x, r.Uniform(dims, 0, 1), r.Uniform(rows)}, 5e-6, {}, 0});
      cases.push_back(InPlace({"softmax_grad_apply", "rows", {}, {x, x, r.Uniform(rows)}, 5e-6}, 1));
      RefTensor ties = r.Integers(dims, 3), wanted = MaxOfRows(ties);
      if (wanted.count() > 3) wanted.values[3] = 99;  // of no column
      ties.dtype = wanted.dtype = DType::kFloat32;
      cases.push_back({"first_index", "ties", {}, {ties, wanted}, 0});
      cases.push_back({"equal", "labels", {}, {labels, r.Integers(rows, c)}, 0});
    }
    cases.push_back({"softmax_loss", "rows", {}, {r.Uniform(rows, -9, 9), r.Uniform(rows, 1, 90), r.Uniform(rows)}});
    Ints none = rows;
    none.push_back(0);
    cases.push_back({"exp_sum", "no columns", {}, {r.Uniform(none), r.Uniform(rows)}, 0});
    cases.push_back({"row_dot", "no columns", {}, {r.Uniform(none), r.Uniform(none)}, 0});
    cases.push_back({"first_index", "no columns", {}, {r.Uniform(none), r.Uniform(rows)}, 0});
  }
}

void AddIndices(Random& r, std::vector<Case>& cases) {
  struct Geometry {
    Ints before, ids, after;
  };
  for (const Geometry& g : {Geometry{{}, {11}, {5}}, Geometry{{}, {2, 3}, {37}}, Geometry{{3}, {4, 5}, {2, 3}},
                            Geometry{{5, 2}, {7}, {}}, Geometry{{}, {}, {6}}, Geometry{{2}, {0}, {6}},
                            Geometry{{0}, {3}, {6}}, Geometry{{2}, {300}, {40}}, Geometry{{300}, {20}, {}}}) {
    const AttrMap attrs = {{"axis", static_cast<int64_t>(g.before.size())}, {"size", int64_t{13}}};
    Ints x = g.before, y = g.before;
    x.push_back(13);
    y.insert(y.end(), g.ids.begin(), g.ids.end());
    for (Ints* dims : {&x, &y}) dims->insert(dims->end(), g.after.begin(), g.after.end());
    cases.push_back({"gather", "geometry", attrs, {r.Uniform(x), r.Integers(g.ids, 13)}, 0});
    cases.push_back({"scatter_add", "geometry", attrs, {r.Uniform(y), r.Integers(g.ids, 13)}, 2e-5});
  }
  cases.push_back({"scatter_add",
                   "into nothing",
                   {{"axis", int64_t{0}}, {"size", int64_t{0}}},
                   {r.Uniform({0, 3}), r.Integers({0}, 1)},
                   0});
  for (const Ints& rows : {Ints{11}, Ints{2, 3}, Ints{}, Ints{0}, Ints{700}}) {
    for (const auto& [c, k] : std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {7, 3}, {3, 20}, {64, 64}, {5, 0}}) {
      Ints x = rows, y = rows;
      x.push_back(c);
      y.push_back(k);
      cases.push_back({"take_along", "rows", {}, {r.Uniform(x), r.Integers(y, c)}, 0});
      cases.push_back({"put_along", "rows", {{"columns", c}}, {r.Uniform(y), r.Integers(y, c)}, 1e-5});
      if (k > c) continue;
      RefTensor ties = r.Integers(x, 5);
      ties.dtype = DType::kFloat32;
      cases.push_back({"top_k", "ties", {{"k", k}}, {ties}, 0});
      cases.push_back({"top_k", "rows", {{"k", k}}, {r.Uniform(x)}, 0});
    }
  }
}

void AddAttention(Random& r, std::vector<Case>& cases) {
  struct Geometry {
    int64_t b, t, heads, d;
  };
  for (const Geometry& g : {Geometry{2, 5, 3, 4}, Geometry{1, 1, 1, 1}, Geometry{2, 64, 2, 32}, Geometry{1, 100, 2, 40},
                            Geometry{1, 33, 1, 16}, Geometry{0, 8, 2, 4}, Geometry{2, 0, 2, 4}, Geometry{3, 130, 1, 64},
                            Geometry{1, 47, 3, 19}}) {
    for (const bool causal : {false, true}) {
      const AttrMap attrs = {{"heads", g.heads}, {"causal", causal}};
      const Ints dims = {g.b, g.t, g.heads * g.d};
      std::vector<RefTensor> in = {Rounded(r.Uniform(dims)), Rounded(r.Uniform(dims)), Rounded(r.Uniform(dims))};
      cases.push_back({"attention", "geometry", attrs, in, 5e-6});
      std::vector<RefTensor> forward = *Reference("attention", attrs, in);
      cases.push_back(
          {"attention_grad", "geometry", attrs, {r.Uniform(dims), in[0], in[1], in[2], forward[0], forward[1]}, 5e-5});
    }
  }
}

void AddConvolutions(Random& r, std::vector<Case>& cases) {
  struct Geometry {
    int64_t n, c, h, w, o, i, j, stride, padding;
  };
  for (const Geometry& g : {Geometry{2, 3, 8, 9, 4, 3, 3, 1, 1}, Geometry{1, 1, 28, 28, 16, 5, 5, 1, 2},
                            Geometry{2, 16, 7, 7, 8, 3, 3, 2, 0}, Geometry{3, 2, 5, 6, 5, 1, 2, 1, 0},
                            Geometry{0, 3, 8, 8, 4, 3, 3, 1, 1}, Geometry{2, 16, 12, 12, 32, 5, 5, 1, 0}}) {
    const AttrMap attrs = {{"stride", g.stride}, {"padding", g.padding}};
    std::vector<RefTensor> in = {r.Uniform({g.n, g.c, g.h, g.w}), r.Uniform({g.o, g.c, g.i, g.j})};
    const RefTensor dy = r.Uniform(Reference("conv2d", attrs, in)->at(0).dims);
    cases.push_back({"conv2d", "geometry", attrs, in, 5e-5});
    AttrMap dgrad = attrs, wgrad = attrs;
    dgrad.Set("height", g.h);
    dgrad.Set("width", g.w);
    wgrad.Set("kernel_height", g.i);
    wgrad.Set("kernel_width", g.j);
    cases.push_back({"conv2d_dgrad", "geometry", dgrad, {dy, in[1]}, 5e-5});
    cases.push_back({"conv2d_wgrad", "geometry", wgrad, {in[0], dy}, 2e-4});
  }
  for (const auto& [dims, kernel, stride] : std::vector<std::tuple<Ints, int64_t, int64_t>>{{{2, 3, 8, 8}, 2, 2},
                                                                                            {{1, 2, 7, 9}, 3, 2},
                                                                                            {{1, 1, 5, 5}, 3, 1},
                                                                                            {{0, 3, 4, 4}, 2, 2},
                                                                                            {{2, 0, 4, 4}, 2, 2}}) {
    const AttrMap attrs = {{"kernel", kernel}, {"stride", stride}};
    RefTensor x = r.Integers(dims, 20);  // ties
    x.dtype = DType::kFloat32;
    cases.push_back({"max_pool2d", "geometry", attrs, {x}, 0});
    std::vector<RefTensor> in = {x};
    const std::vector<RefTensor> out = *Reference("max_pool2d", attrs, in);
    cases.push_back({"max_pool2d_grad",
                     "geometry",
                     {{"height", dims[2]}, {"width", dims[3]}},
                     {r.Uniform(out[0].dims), out[1]},
                     1e-6});
  }
}

void AddTraining(Random& r, std::vector<Case>& cases) {
  for (const double max_norm : {0.0, 1.0, 100.0})
    cases.push_back({"clip_scale", "norm", {{"max_norm", max_norm}}, {r.Uniform({}, 4, 50)}});
  for (const char* kind : {"constant", "cosine", "linear"}) {
    for (const int64_t step : {0, 9, 10, 55, 99, 100, 1000}) {
      cases.push_back({"lr_schedule",
                       "step",
                       {{"base", 0.003},
                        {"warmup", int64_t{10}},
                        {"total", int64_t{100}},
                        {"min_ratio", 0.1},
                        {"kind", std::string(kind)}},
                       {Scalar(static_cast<double>(step), DType::kInt64)},
                       1e-6});
    }
    cases.push_back({"lr_schedule",
                     "no warm-up",
                     {{"base", 0.5},
                      {"warmup", int64_t{0}},
                      {"total", int64_t{8}},
                      {"min_ratio", 0.0},
                      {"kind", std::string(kind)}},
                     {Scalar(2, DType::kInt64)},
                     1e-6});
  }
  for (const int64_t n : {0, 1, 37, 40000}) {
    cases.push_back({"adamw_update",
                     "size",
                     {{"beta1", 0.9}, {"beta2", 0.95}, {"epsilon", 1e-8}, {"weight_decay", 0.1}},
                     {r.Uniform({n}), r.Uniform({n}), r.Uniform({n}, 0.1, 1), r.Uniform({n}), Scalar(0.01), Scalar(0.5),
                      Scalar(6, DType::kInt64)},
                     5e-6});
    for (const bool nesterov : {false, true}) {
      cases.push_back({"sgd_update",
                       "size",
                       {{"momentum", 0.9}, {"weight_decay", 0.01}, {"nesterov", nesterov}},
                       {r.Uniform({n}), r.Uniform({n}), r.Uniform({n}), Scalar(0.1), Scalar(0.5)},
                       2e-6});
    }
  }
}

void AddGeneration(Random& r, std::vector<Case>& cases) {
  for (int64_t step = 0; step < 20; ++step) {
    const AttrMap attrs = {{"temperature", step % 4 * 0.5}, {"seed", int64_t{3}}, {"key", int64_t{99}}};
    cases.push_back({"sample_token",
                     "draws",
                     attrs,
                     {r.Uniform({1, 6, 37}, -4, 4), Scalar(static_cast<double>(1 + step % 8), DType::kInt32)},
                     0,
                     {step, 0}});
  }
  for (const int64_t length : {0, 3, 5}) {
    cases.push_back({"append_token",
                     "length",
                     {},
                     {r.Integers({1, 5}, 100), Scalar(static_cast<double>(length), DType::kInt32), r.Integers({}, 100)},
                     0});
  }
}

// Few different values, as floats: many are equal.
RefTensor Ties(Random& r, const Ints& dims) {
  RefTensor x = r.Integers(dims, 3);
  x.dtype = DType::kFloat32;
  return x;
}

void AddExtrema(Random& r, std::vector<Case>& cases) {
  const std::pair<Ints, Ints> reductions[] = {{{5, 37}, {1}},         {{5, 37}, {0}},         {{5, 37}, {0, 1}},
                                              {{3, 4, 5, 6}, {1, 3}}, {{3, 4, 5, 6}, {0, 2}}, {{3, 4, 5, 6}, {1, 2}},
                                              {{3, 1, 5}, {1}},       {{5, 7}, {}},           {{}, {}},
                                              {{0, 4}, {1}},          {{300, 301}, {0}},      {{9, 5, 300}, {0, 1}},
                                              {{300, 301}, {1}},      {{300, 301}, {0, 1}}};
  for (const auto& [dims, axes] : reductions) {
    for (const char* op : {"reduce_max", "reduce_min"}) {
      const bool keepdims = op == std::string("reduce_min");
      const AttrMap attrs = {{"axes", axes}, {"keepdims", keepdims}};
      std::vector<RefTensor> in = {Ties(r, dims)};
      in.push_back((*Reference(op, attrs, in))[0]);
      const RefTensor n = (*Reference("extremum_count", attrs, in))[0];
      cases.push_back({"extremum_count", op, attrs, in, 0});
      cases.push_back({"extremum_grad", op, attrs, {r.Uniform(n.dims), in[0], in[1], n}, 1e-6});
    }
  }
  for (const char* op : {"maximum", "minimum", "heaviside"}) {
    for (const auto& [a, b] : std::vector<std::pair<Ints, Ints>>{
             {{7, 37}, {7, 37}}, {{7, 37}, {37}}, {{7, 37}, {}}, {{1, 37}, {7, 1}}, {{0, 37}, {37}}, {{}, {}}}) {
      cases.push_back(InPlace({op, "ties", {}, {Ties(r, a), Ties(r, b)}, 0}, a == b ? 0 : -1));
    }
    cases.push_back(InPlace({op, "into the second", {}, {r.Uniform({9, 9}), r.Uniform({9, 9})}, 0}, 1));
  }
  const double nan = std::numeric_limits<double>::quiet_NaN();
  RefTensor a = r.Uniform({37}), b = r.Uniform({37});
  for (const int64_t i : {0, 1, 20, 36}) a.values[i] = nan;
  for (const int64_t i : {1, 2, 36}) b.values[i] = nan;
  for (const char* op : {"maximum", "minimum", "heaviside"}) cases.push_back({op, "NaN", {}, {a, b}, 0});
  cases.push_back({"relu_grad", "NaN", {}, {r.Uniform({37}), a}, 0});
}

void AddPadsAndRunningSums(Random& r, std::vector<Case>& cases) {
  for (const DType dtype : kAllDTypes) {
    const AttrMap attrs = {{"before", Ints{1, 0, 2}}, {"after", Ints{0, 3, 1}}, {"value", 1.0}};
    cases.push_back({"pad", "dtypes", attrs, {r.Small({4, 3, 5}, dtype)}, 0});
  }
  cases.push_back({"pad", "zeros", {{"before", Ints{2, 1}}, {"after", Ints{0, 5}}}, {r.Uniform({200, 37})}, 0});
  cases.push_back({"pad", "nothing to keep", {{"before", Ints{2, 1}}, {"after", Ints{1, 0}}}, {r.Uniform({0, 4})}, 0});
  cases.push_back({"pad", "nothing to add", {{"before", Ints{0, 0}}, {"after", Ints{0, 0}}}, {r.Uniform({3, 4})}, 0});
  cases.push_back({"pad", "to nothing", {{"before", Ints{0, 0}}, {"after", Ints{1, 0}}}, {r.Uniform({3, 0})}, 0});
  cases.push_back({"pad", "scalar", {{"before", Ints{}}, {"after", Ints{}}, {"value", 9.0}}, {r.Uniform({})}, 0});
  for (const auto& [dims, axis] : std::vector<std::pair<Ints, int64_t>>{{{37}, 0},
                                                                        {{5, 37}, 1},
                                                                        {{5, 100}, 1},
                                                                        {{5, 37}, 0},
                                                                        {{3, 4, 5}, 1},
                                                                        {{2, 9, 300}, 1},
                                                                        {{0, 4}, 1},
                                                                        {{4, 0}, 1},
                                                                        {{4, 0}, 0},
                                                                        {{200, 500}, 1},
                                                                        {{200, 500}, 0}}) {
    for (const bool reverse : {false, true}) {
      for (const bool exclusive : {false, true}) {
        const AttrMap attrs = {{"axis", axis}, {"reverse", reverse}, {"exclusive", exclusive}};
        cases.push_back(InPlace({"cumsum", "axis", attrs, {r.Uniform(dims)}, 2e-6}, 0));
      }
    }
  }
}

void AddNorms(Random& r, std::vector<Case>& cases) {
  for (const Ints& rows : {Ints{5}, Ints{2, 3}, Ints{}, Ints{0}, Ints{700}}) {
    for (const int64_t c : {1, 16, 37, 128}) {
      Ints x = rows;
      x.push_back(c);
      cases.push_back({"rms_norm", "rows", {{"epsilon", 1e-5}}, {r.Uniform(x, 3, 9), r.Uniform({c})}, 2e-6});
      cases.push_back(
          {"rms_norm_grad", "rows", {}, {r.Uniform(x), r.Uniform(x), r.Uniform({c}), r.Uniform(rows, 0.5, 1)}, 5e-5});
    }
  }
  for (const Ints& dims :
       {Ints{5, 37}, Ints{7, 1}, Ints{200, 20}, Ints{1000, 33}, Ints{3, 5, 6}, Ints{2, 4, 3, 7}, Ints{3, 2, 40, 41},
        Ints{130, 3, 9}, Ints{2, 3, 1, 2, 5}, Ints{0, 3, 4}, Ints{0, 3}, Ints{3, 0, 4}}) {
    const Ints c = {dims[1]};
    const AttrMap attrs = {{"epsilon", 1e-3}};
    const RefTensor x = r.Uniform(dims, 3, 9), mean = r.Uniform(c, 5, 7), var = r.Uniform(c, 0.5, 2);
    if (x.count() > 0) cases.push_back({"channel_variance", "sides", {}, {x, mean}, 2e-6});
    const RefTensor gamma = r.Uniform(c), beta = r.Uniform(c), dy = r.Uniform(dims);
    cases.push_back(InPlace({"batch_norm", "sides", attrs, {x, gamma, beta, mean, var}, 5e-6}, 0));
    cases.push_back({"batch_norm_sums", "sides", attrs, {dy, x, mean, var}, 5e-5});
    if (x.count() == 0) continue;
    cases.push_back(
        InPlace({"batch_norm_dx", "sides", attrs, {dy, x, gamma, mean, var, r.Uniform(c), r.Uniform(c)}, 1e-5}, 0));
  }
  for (const int64_t n : {0, 1, 37, 40000}) {
    cases.push_back({"ema_update", "size", {{"decay", 0.9}}, {r.Uniform({n}), r.Uniform({n})}, 1e-6});
  }
}

}  // namespace

RefTensor Random::Uniform(std::vector<int64_t> dims, double low, double high) {
  RefTensor x = Zeros(std::move(dims));
  std::uniform_real_distribution<double> uniform(low, high);
  for (double& v : x.values) v = uniform(engine_);
  return x;
}

RefTensor Random::Integers(std::vector<int64_t> dims, int64_t below, DType dtype) {
  RefTensor x = Zeros(std::move(dims), dtype);
  std::uniform_int_distribution<int64_t> uniform(0, below - 1);
  for (double& v : x.values) v = static_cast<double>(uniform(engine_));
  return x;
}

RefTensor Random::Small(std::vector<int64_t> dims, DType dtype) {
  return Integers(std::move(dims), dtype == DType::kBool ? 2 : 100, dtype);
}

std::vector<Case> ConformanceCases(uint64_t seed) {
  Random r(seed);
  std::vector<Case> cases;
  AddElementwise(r, cases);
  AddPlumbing(r, cases);
  AddLayout(r, cases);
  AddReductions(r, cases);
  AddLinear(r, cases);
  AddSoftmaxParts(r, cases);
  AddIndices(r, cases);
  AddAttention(r, cases);
  AddConvolutions(r, cases);
  AddTraining(r, cases);
  AddGeneration(r, cases);
  AddExtrema(r, cases);
  AddPadsAndRunningSums(r, cases);
  AddNorms(r, cases);
  for (Case& c : cases) {
    for (RefTensor& x : c.inputs) x = Rounded(std::move(x));
  }
  return cases;
}

}  // namespace oneflow::testing
