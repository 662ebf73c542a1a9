// What tests know of the reductions, and of the gradient of extrema: an element of x belongs to one of its reduction.
#include <algorithm>
#include <cmath>
#include <limits>

#include "oneflow_core/functional.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::ReduceOps {
namespace {

// y[kept coordinates] = f over the reduced ones, from `identity`.
RefTensor ReduceAxes(const RefTensor& x, const AttrMap& attrs, double identity, double (*f)(double, double)) {
  std::vector<bool> reduced(x.dims.size(), false);
  for (const int64_t axis : attrs.Ints("axes")) reduced[axis < 0 ? axis + x.dims.size() : axis] = true;
  Dims keep, dims;  // sizes with 1 for what is reduced, sizes as they are returned
  for (size_t i = 0; i < x.dims.size(); ++i) {
    keep.push_back(reduced[i] ? 1 : x.dims[i]);
    if (!reduced[i] || attrs.Bool("keepdims")) dims.push_back(keep.back());
  }
  RefTensor y = Zeros(dims, x.dtype);
  std::fill(y.values.begin(), y.values.end(), identity);
  for (int64_t i = 0; i < x.count(); ++i) {
    Dims at = Unravel(x.dims, i);
    for (size_t d = 0; d < at.size(); ++d) at[d] = reduced[d] ? 0 : at[d];
    double& target = y.values[Ravel(keep, at)];
    target = f(target, x.values[i]);
  }
  return y;
}

// For every element of `x` the index of the one of its reduction over `axes` that it belongs to.
std::vector<int64_t> ReducedIndices(const Dims& dims, const AttrMap& attrs) {
  Dims kept = dims;
  for (const int64_t axis : attrs.Ints("axes")) kept[axis] = 1;
  std::vector<int64_t> indices(Count(dims));
  for (int64_t i = 0; i < Count(dims); ++i) {
    Dims at = Unravel(dims, i);
    for (size_t d = 0; d < at.size(); ++d) at[d] = kept[d] == 1 ? 0 : at[d];
    indices[i] = Ravel(kept, at);
  }
  return indices;
}

Tensors ExtremumCount(RefCall& c) {
  RefTensor n = Zeros(c.in[1].dims);
  const std::vector<int64_t> index = ReducedIndices(c.in[0].dims, c.attrs);
  for (int64_t i = 0; i < c.in[0].count(); ++i) n.values[index[i]] += c.in[0].values[i] == c.in[1].values[index[i]];
  return {n};
}

Tensors ExtremumGrad(RefCall& c) {
  const RefTensor &dy = c.in[0], &x = c.in[1], &y = c.in[2], &n = c.in[3];
  RefTensor dx = Zeros(x.dims);
  const std::vector<int64_t> index = ReducedIndices(x.dims, c.attrs);
  for (int64_t i = 0; i < x.count(); ++i) {
    if (x.values[i] == y.values[index[i]]) dx.values[i] = dy.values[index[i]] / n.values[index[i]];
  }
  return {dx};
}

Tensors ReduceMean(RefCall& c) {
  RefTensor y = ReduceAxes(c.in[0], c.attrs, 0, Plus);
  for (double& v : y.values) v /= static_cast<double>(c.in[0].count()) / static_cast<double>(y.count());
  return {y};
}

Tensors SquareSum(RefCall& c) {
  RefTensor y = Zeros({});
  for (const double v : c.in[0].values) y.values[0] += v * v;
  return {y};
}

constexpr const char kTypes[] = R"(
reduce_sum(f32[2,3,4]) {axes=[1]} = f32[2,4]
reduce_sum(f32[2,3,4]) {axes=[0,1]} = f32[4]
reduce_sum(f32[2,3,4]) {axes=[0,2] keepdims=true} = f32[1,3,1]
reduce_sum(f32[2,3]) {axes=[]} = f32[2,3]
reduce_sum(f32[0,3]) {axes=[0]} = f32[3]
reduce_sum(f32[2,3]) ! attribute 'axes' is missing
reduce_sum(f32[2,3]) {axes=[2]} ! attribute 'axes' is [2] but must be ascending dimensions of x, which is f32[2,3]
reduce_sum(f32[2,3]) {axes=[-1]} ! attribute 'axes' is [-1] but must be ascending dimensions of x, which is f32[2,3]
reduce_sum(f32[2,3]) {axes=[1,0]} ! attribute 'axes' is [1,0] but must be ascending dimensions of x, which is f32[2,3]
reduce_sum(f32[2,3]) {axes=[1,1]} ! attribute 'axes' is [1,1] but must be ascending dimensions of x, which is f32[2,3]
reduce_sum(f32[2,3]) {axes=[1] keepdims=yes} ! attribute 'keepdims' is a string but must be a bool
reduce_mean(f32[2,3]) {axes=[0,1]} = f32[]
reduce_mean(f32[2,3]) {axes=[1]} = f32[2]
reduce_mean(f32[2,3]) {axes=[1] keepdims=true} = f32[2,1]
reduce_mean(f32[0,3]) {axes=[0]} ! x is f32[0,3] but must have at least one element
reduce_max(f32[2,3]) {axes=[0]} = f32[3]
reduce_max(f32[2,3]) {axes=[0] keepdims=true} = f32[1,3]
reduce_max(f32[2,0]) {axes=[1]} ! x is f32[2,0] but must have at least one element
reduce_min(f32[2,3,4]) {axes=[0,2]} = f32[3]
reduce_min(f32[0]) {axes=[0]} ! x is f32[0] but must have at least one element
extremum_count(bf16[2,3,4] bf16[2,4]) {axes=[1]} = f32[2,4]
extremum_count(f32[2,3] f32[2,1]) {axes=[1] keepdims=true} = f32[2,1]
extremum_count(f32[2,3] f32[3]) {axes=[1]} ! y is f32[3] but x, which is f32[2,3], needs f32[2]
extremum_grad(f32[2] f32[2,3] f32[2] f32[2]) {axes=[1]} = f32[2,3]
extremum_grad(f32[3] f32[2,3] f32[2] f32[2]) {axes=[1]} ! dy is f32[3] but x, which is f32[2,3], needs f32[2]
extremum_grad(f32[2] f32[2,3] f32[2] f32[3]) {axes=[1]} ! n is f32[3] but x, which is f32[2,3], needs f32[2]
extremum_grad(f32[2] f32[2,3] f32[2] f32[2]) {axes=[2]} ! attribute 'axes' is [2] but must be ascending dimensions of x,
    which is f32[2,3]
square_sum(f32[2,3]) = f32[]
square_sum(bf16[2,3]) = f32[]
square_sum(i32[2]) ! x is i32[2] but must be floating
)";

constexpr const char kSignatures[] = R"(
reduce_sum(f32[8,4,16]) {axes=[1]} | S(0)->S(0) S(1)->P S(2)->S(1) P->P | - | - | reduce_ops.cpp | -
reduce_mean(f32[8,4,16]) {axes=[1]} | - | S(0)->S(0) S(1)->P S(2)->S(1) P->P | - | - | there a sum and a division; here
    divided by the logical count
reduce_max(f32[8,4,16]) {axes=[1]} | S(0)->S(0) S(2)->S(1) | S(1)->P(max) | - | reduce_ops.cpp | there a local and a
    global stage as two ops; here the second is a boxing
reduce_min(f32[8,4,16]) {axes=[1]} | S(0)->S(0) S(2)->S(1) | S(1)->P(min) | - | reduce_ops.cpp | -
)";

void AddExtrema(Random& r, OpCases& cases) {
  const std::pair<Dims, Dims> reductions[] = {{{5, 37}, {1}},         {{5, 37}, {0}},         {{5, 37}, {0, 1}},
                                              {{3, 4, 5, 6}, {1, 3}}, {{3, 4, 5, 6}, {0, 2}}, {{3, 4, 5, 6}, {1, 2}},
                                              {{3, 1, 5}, {1}},       {{5, 7}, {}},           {{}, {}},
                                              {{0, 4}, {1}},          {{300, 301}, {0}},      {{9, 5, 300}, {0, 1}},
                                              {{300, 301}, {1}},      {{300, 301}, {0, 1}}};
  for (const auto& [dims, axes] : reductions) {
    for (const char* op : {"reduce_max", "reduce_min"}) {
      const AttrMap attrs = Axes(axes, op == std::string("reduce_min"));
      Tensors in = {Few(r, dims)};
      in.push_back((*Reference(op, attrs, in))[0]);
      const RefTensor n = (*Reference("extremum_count", attrs, in))[0];
      cases.push_back({"extremum_count", op, attrs, in, 0});
      cases.push_back({"extremum_grad", op, attrs, {r.Uniform(n.dims), in[0], in[1], n}, 1e-6});
    }
  }
}

void AddExamples(Random& r, OpCases& cases) {
  for (const Dims& axes : {Dims{0}, Dims{1}, Dims{0, 2}, Dims{0, 1, 2}, Dims{}}) {
    for (const bool keepdims : {false, true}) {
      const AttrMap attrs = Axes(axes, keepdims);
      for (const char* op : {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min"}) {
        cases.push_back({op, "small", attrs, {r.Uniform({7, 5, 3})}});
      }
      Tensors in = {Few(r, {7, 5, 3})};
      in.push_back((*Reference("reduce_max", attrs, in))[0]);
      const RefTensor n = (*Reference("extremum_count", attrs, in))[0];
      cases.push_back({"extremum_count", "small", attrs, in, 0});
      cases.push_back({"extremum_grad", "small", attrs, {r.Uniform(n.dims), in[0], in[1], n}});
    }
  }
  cases.push_back({"square_sum", "small", {}, {r.Uniform({7, 5})}});
}

void AddEdges(Random& r, OpCases& cases) {
  const std::pair<Dims, Dims> reductions[] = {{{5, 37}, {1}},         {{5, 37}, {0}},         {{5, 37}, {0, 1}},
                                              {{3, 4, 5, 6}, {1, 3}}, {{3, 4, 5, 6}, {0, 2}}, {{3, 4, 5, 6}, {1, 2}},
                                              {{3, 1, 5}, {1}},       {{5, 7}, {}},           {{}, {}},
                                              {{600, 301}, {0}},      {{600, 301}, {1}},      {{600, 301}, {0, 1}},
                                              {{2, 32, 5, 7}, {2, 3}}};
  for (const char* op : {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min"}) {
    for (const auto& [dims, axes] : reductions) {
      for (const bool keepdims : {false, true}) {
        cases.push_back({op, "axes", Axes(axes, keepdims), {r.Uniform(dims)}, 1e-5});
      }
    }
  }
  cases.push_back({"reduce_sum", "nothing to sum", {{"axes", Dims{0}}}, {r.Uniform({0, 37})}});
  cases.push_back({"reduce_sum", "empty result", {{"axes", Dims{1}}}, {r.Uniform({0, 37})}});
  for (const int64_t n : {0, 1, 37, 100003}) cases.push_back({"square_sum", "size", {}, {r.Uniform({n})}});
  AddExtrema(r, cases);
}

void AddExtremes(Random& r, OpCases& cases) {
  for (const char* op : {"reduce_max", "reduce_min"}) {
    for (const Dims& axes : {Dims{1}, Dims{0, 2}, Dims{0, 1, 2}}) {
      for (const bool keepdims : {false, true}) {
        cases.push_back({op, "ties", Axes(axes, keepdims), {Few(r, {7, 5, 3})}});
      }
    }
    cases.push_back({op,
                     "infinities",
                     Axes({1}, false),
                     {With(r.Uniform({7, 5}), {kInfinity, -kInfinity, kInfinity, -kInfinity})}});
  }
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {
      .types = kTypes, .signatures = kSignatures, .examples = AddExamples, .edges = AddEdges, .extremes = AddExtremes};
  facts.reference = {
      {"reduce_sum", [](RefCall& c) { return Tensors{ReduceAxes(c.in[0], c.attrs, 0, Plus)}; }},
      {"reduce_mean", ReduceMean},
      {"reduce_max",
       [](RefCall& c) {
         return Tensors{ReduceAxes(c.in[0], c.attrs, -std::numeric_limits<double>::infinity(), Larger)};
       }},
      {"reduce_min", [](RefCall& c) { return Tensors{ReduceAxes(c.in[0], c.attrs, kInfinity, Smaller)}; }},
      {"extremum_count", ExtremumCount},
      {"extremum_grad", ExtremumGrad},
      {"square_sum", SquareSum}};
  // Not linear; sums maxima.
  facts.wrong_signatures = {{"square_sum", {2}, {"P->P"}}, {"reduce_max", {2}, {"S(0)->P"}}};
  facts.dsl = {{[](Operands d) {
                  return ReduceSum(d.F32({2, 3}), {-1});
                },
                "reduce_sum", "f32[2]"},
               {[](Operands d) {
                  return ReduceMean(d.F32({2, 3}));
                },
                "reduce_mean", "f32[]"},
               {[](Operands d) {
                  return ReduceMax(d.F32({2, 3, 8, 8}), {-1, 0}, true);
                },
                "reduce_max", "f32[1,3,8,1]"},
               {[](Operands d) {
                  return ReduceMin(d.F32({2, 3, 8, 8}), {1});
                },
                "reduce_min", "f32[2,8,8]"}};
  facts.without_gradient = {{"extremum_count", "a gradient itself"}, {"extremum_grad", "a gradient itself"}};
  return facts;
}

}  // namespace oneflow::testing::ReduceOps
