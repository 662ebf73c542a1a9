// What tests know of the ops by index: gather, scatter_add, take_along, put_along and top_k.
#include <algorithm>
#include <limits>

#include "oneflow_core/functional.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::IndexOps {
namespace {

// Where element `at` of what is gathered from a tensor along `axis` comes from.
Dims GatheredFrom(const Dims& at, int64_t axis, const RefTensor& ids) {
  const auto first = at.begin() + axis, last = first + static_cast<int64_t>(ids.dims.size());
  Dims from(at.begin(), first);
  from.push_back(static_cast<int64_t>(ids.values[Ravel(ids.dims, Dims(first, last))]));
  from.insert(from.end(), last, at.end());
  return from;
}

Tensors Gather(RefCall& c) {
  const RefTensor &x = c.in[0], &ids = c.in[1];
  const int64_t axis = c.attrs.Int("axis");
  Dims dims = x.dims;
  dims.erase(dims.begin() + axis);
  dims.insert(dims.begin() + axis, ids.dims.begin(), ids.dims.end());
  RefTensor y = Zeros(dims);
  for (int64_t i = 0; i < y.count(); ++i) {
    y.values[i] = x.values[Ravel(x.dims, GatheredFrom(Unravel(dims, i), axis, ids))];
  }
  return {y};
}

Tensors ScatterAdd(RefCall& c) {
  const RefTensor &updates = c.in[0], &ids = c.in[1];
  const int64_t axis = c.attrs.Int("axis");
  Dims dims = updates.dims;
  dims.erase(dims.begin() + axis, dims.begin() + axis + static_cast<int64_t>(ids.dims.size()));
  dims.insert(dims.begin() + axis, c.attrs.Int("size"));
  RefTensor x = Zeros(dims);
  for (int64_t i = 0; i < updates.count(); ++i) {
    x.values[Ravel(dims, GatheredFrom(Unravel(updates.dims, i), axis, ids))] += updates.values[i];
  }
  return {x};
}

Tensors TakeAlong(RefCall& c) {
  const int64_t n = Columns(c.in[0]), k = Columns(c.in[1]);
  RefTensor y = Zeros(c.in[1].dims);
  for (int64_t i = 0; i < y.count(); ++i) {
    y.values[i] = c.in[0].values[i / k * n + static_cast<int64_t>(c.in[1].values[i])];
  }
  return {y};
}

Tensors PutAlong(RefCall& c) {
  const int64_t n = c.attrs.Int("columns"), k = Columns(c.in[0]);
  Dims dims = c.in[0].dims;
  dims.back() = n;
  RefTensor x = Zeros(dims);
  for (int64_t i = 0; i < c.in[0].count(); ++i) {
    x.values[i / k * n + static_cast<int64_t>(c.in[1].values[i])] += c.in[0].values[i];
  }
  return {x};
}

Tensors TopK(RefCall& c) {
  const RefTensor& x = c.in[0];
  const int64_t n = Columns(x), k = c.attrs.Int("k");
  Dims dims = x.dims;
  dims.back() = k;
  RefTensor values = Zeros(dims), indices = Zeros(dims, DType::kInt32);
  for (int64_t row = 0; k > 0 && row < values.count() / k; ++row) {
    Dims order(n);
    for (int64_t i = 0; i < n; ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return x.values[row * n + a] > x.values[row * n + b]; });
    for (int64_t j = 0; j < k; ++j) {
      values.values[row * k + j] = x.values[row * n + order[j]];
      indices.values[row * k + j] = static_cast<double>(order[j]);
    }
  }
  return {values, indices};
}

constexpr const char kTypes[] = R"(
gather(f32[5,4] i32[2,3]) {axis=0} = f32[2,3,4]
gather(f32[2,5,4] i32[3]) {axis=1} = f32[2,3,4]
gather(bf16[2,5] i32[]) {axis=1} = bf16[2]
gather(f32[5,4] i32[0]) {axis=0} = f32[0,4]
gather(f32[5,4] i32[2]) {axis=2} ! attribute 'axis' is 2 but must be in [0, 1]
gather(f32[5,4] i32[2]) ! attribute 'axis' is missing
gather(f32[5,4] i64[2]) {axis=0} ! ids is i64[2] but must be i32
gather(i32[5,4] i32[2]) {axis=0} ! x is i32[5,4] but must be floating
scatter_add(f32[2,3,4] i32[2,3]) {axis=0 size=5} = f32[5,4]
scatter_add(f32[2,3,4] i32[3]) {axis=1 size=5} = f32[2,5,4]
scatter_add(f32[2,3] i32[]) {axis=2 size=5} = f32[2,3,5]
scatter_add(bf16[3] i32[3]) {axis=0 size=0} = bf16[0]
scatter_add(f32[2,3,4] i32[3,4]) {axis=0 size=5} ! ids is i32[3,4] but updates, which is f32[2,3,4], with axis 0 needs
    i32[2,3]
scatter_add(f32[2,3,4] i32[2,3]) {axis=2 size=5} ! attribute 'axis' is 2 but must be in [0, 1]
scatter_add(f32[2,3] i32[2,3,4]) {axis=0 size=5} ! ids is i32[2,3,4], which is more dimensions than updates, f32[2,3],
    has
scatter_add(f32[2,3] i32[2]) {axis=0 size=-1} ! attribute 'size' is -1 but must be at least 0
take_along(f32[2,3,7] i32[2,3,4]) = f32[2,3,4]
take_along(bf16[7] i32[9]) = bf16[9]
take_along(f32[2,7] i32[3,4]) ! leading dimensions differ: x is f32[2,7], ids is i32[3,4]
take_along(f32[2,7] i32[2]) ! leading dimensions differ: x is f32[2,7], ids is i32[2]
take_along(f32[2,7] i32[]) ! ids is i32[] but must have at least 1 dimensions
put_along(f32[2,3,4] i32[2,3,4]) {columns=7} = f32[2,3,7]
put_along(bf16[9] i32[9]) {columns=7} = bf16[7]
put_along(f32[2,4] i32[2,3]) {columns=7} ! ids is i32[2,3] but dy, which is f32[2,4], needs i32[2,4]
put_along(f32[2,4] i32[2,4]) ! attribute 'columns' is missing
put_along(f32[2,4] i32[2,4]) {columns=-1} ! attribute 'columns' is -1 but must be at least 0
top_k(f32[2,3,7]) {k=4} = f32[2,3,4] i32[2,3,4]
top_k(bf16[7]) {k=7} = bf16[7] i32[7]
top_k(f32[2,7]) {k=8} ! attribute 'k' is 8 but must be in [0, 7]
top_k(f32[2,7]) ! attribute 'k' is missing
top_k(f32[2147483648]) {k=1} ! x is f32[2147483648], more columns than an i32 can number
top_k(f32[]) {k=0} ! x is f32[] but must have at least 1 dimensions
)";

constexpr const char kSignatures[] = R"(
gather(f32[16,8], i32[8,4]) {axis=0} | S(0),B->P S(1),B->S(2) B,S(0)->S(0) B,S(1)->S(1) | P,B->P | - | gather_op.cpp |
    split rows give P
gather(f32[4,16,8], i32[8]) {axis=1} | S(0),B->S(0) S(1),B->P S(2),B->S(2) B,S(0)->S(1) | P,B->P | - | gather_op.cpp | -
scatter_add(f32[4,8,4], i32[8]) {axis=1, size=16} | S(0),B->S(0) S(2),B->S(2) S(1),S(0)->P P,B->P | B,B->S(1) | - |
    unsorted_segment_sum_op.cpp | each rank keeps its own rows
take_along(f32[8,16], i32[8,4]) | S(0),S(0)->S(0) B,S(1)->S(1) P,B->P | S(1),B->P | - | dim_gather_op.cpp | -
top_k(f32[8,16]) {k=4} | S(0)->S(0),S(0) | - | - | top_k_op.cpp | -
)";

void AddGatherEdges(Random& r, OpCases& cases) {
  struct Geometry {
    Dims before, ids, after;
  };
  for (const Geometry& g : {Geometry{{}, {11}, {5}}, Geometry{{}, {2, 3}, {37}}, Geometry{{3}, {4, 5}, {2, 3}},
                            Geometry{{5, 2}, {7}, {}}, Geometry{{}, {}, {6}}, Geometry{{2}, {0}, {6}},
                            Geometry{{0}, {3}, {6}}, Geometry{{2}, {300}, {40}}, Geometry{{300}, {20}, {}}}) {
    const AttrMap attrs = {{"axis", static_cast<int64_t>(g.before.size())}, {"size", int64_t{13}}};
    Dims x = g.before, y = g.before;
    x.push_back(13);
    y.insert(y.end(), g.ids.begin(), g.ids.end());
    for (Dims* dims : {&x, &y}) dims->insert(dims->end(), g.after.begin(), g.after.end());
    cases.push_back({"gather", "geometry", attrs, {r.Uniform(x), r.Integers(g.ids, 13)}, 0});
    cases.push_back({"scatter_add", "geometry", attrs, {r.Uniform(y), r.Integers(g.ids, 13)}, 2e-5});
  }
  const AttrMap none = {{"axis", int64_t{0}}, {"size", int64_t{0}}};
  cases.push_back({"scatter_add", "into nothing", none, {r.Uniform({0, 3}), r.Integers({0}, 1)}, 0});
}

void AddExamples(Random& r, OpCases& cases) {
  for (const int64_t size : {11, 3}) {  // more and fewer rows than ranks
    const AttrMap attrs = {{"axis", int64_t{1}}, {"size", size}};
    cases.push_back({"gather", "small", attrs, {r.Uniform({5, size, 3}), r.Integers({7, 3}, size)}});
    cases.push_back({"scatter_add", "small", attrs, {r.Uniform({5, 7, 3, 3}), r.Integers({7, 3}, size)}});
    cases.push_back({"take_along", "small", {}, {r.Uniform({5, size}), r.Integers({5, 7}, size)}});
    cases.push_back({"put_along", "small", {{"columns", size}}, {r.Uniform({5, 7}), r.Integers({5, 7}, size)}});
  }
  const AttrMap rows = {{"axis", int64_t{0}}, {"size", int64_t{7}}};
  cases.push_back({"gather", "one row", rows, {r.Uniform({7, 5}), r.Integers({}, 7)}});
  cases.push_back({"scatter_add", "rows", rows, {r.Uniform({7, 5}), r.Integers({7}, 7)}});
  cases.push_back({"top_k", "small", {{"k", int64_t{3}}}, {r.Uniform({5, 3, 7})}});
}

void AddEdges(Random& r, OpCases& cases) {
  AddGatherEdges(r, cases);
  for (const Dims& rows : {Dims{11}, Dims{2, 3}, Dims{}, Dims{0}, Dims{700}}) {
    for (const auto& [c, k] : std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {7, 3}, {3, 20}, {64, 64}, {5, 0}}) {
      Dims x = rows, y = rows;
      x.push_back(c);
      y.push_back(k);
      cases.push_back({"take_along", "rows", {}, {r.Uniform(x), r.Integers(y, c)}, 0});
      cases.push_back({"put_along", "rows", {{"columns", c}}, {r.Uniform(y), r.Integers(y, c)}, 1e-5});
      if (k > c) continue;
      cases.push_back({"top_k", "ties", {{"k", k}}, {Few(r, x)}, 0});
      cases.push_back({"top_k", "rows", {{"k", k}}, {r.Uniform(x)}, 0});
    }
  }
  for (const int64_t k : {33, 300, 2999, 3000}) {  // more than a heap is for
    cases.push_back({"top_k", "many of ties", {{"k", k}}, {Few(r, {2, 3000})}, 0});
    cases.push_back({"top_k", "many", {{"k", k}}, {r.Uniform({2, 3000})}, 0});
  }
}

void AddExtremes(Random& r, OpCases& cases) {
  cases.push_back({"top_k", "ties", {{"k", int64_t{5}}}, {Few(r, {5, 3, 7})}});
  cases.push_back({"top_k",
                   "infinities and NaN",
                   {{"k", int64_t{3}}},
                   {With(r.Uniform({5, 7}), {kNan, kNan, kInfinity, 1, -kInfinity})}});
  cases.push_back({"top_k",
                   "many, infinities and NaN",
                   {{"k", int64_t{90}}},
                   {With(r.Uniform({2, 100}), {kNan, kNan, kInfinity, 0.0f, -0.0f, -kInfinity})}});
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {
      .types = kTypes, .signatures = kSignatures, .examples = AddExamples, .edges = AddEdges, .extremes = AddExtremes};
  facts.reference = {{"gather", Gather},
                     {"scatter_add", ScatterAdd},
                     {"take_along", TakeAlong},
                     {"put_along", PutAlong},
                     {"top_k", TopK}};
  facts.dsl = {{[](Operands d) {
                  return Gather(d.F32({2, 3, 8, 8}), d.I32({2}), -2);
                },
                "gather", "f32[2,3,2,8]"},
               {[](Operands d) {
                  return ScatterAdd(d.F32({2, 3, 8, 8}), d.I32({3, 8}), -2, 9);
                },
                "scatter_add", "f32[2,9,8]"},
               {[](Operands d) {
                  return TakeAlong(d.F32({2, 7}), d.I32({2, 3}));
                },
                "take_along", "f32[2,3]"},
               {[](Operands d) {
                  return PutAlong(d.F32({2, 3}), d.I32({2, 3}), 7);
                },
                "put_along", "f32[2,7]"},
               {[](Operands d) {
                  return TopK(d.F32({2, 7}), 3).values;
                },
                "top_k", "f32[2,3]"},
               {[](Operands d) {
                  return TopK(d.F32({2, 7}), 3).indices;
                },
                "top_k", "i32[2,3]"}};
  return facts;
}

}  // namespace oneflow::testing::IndexOps
