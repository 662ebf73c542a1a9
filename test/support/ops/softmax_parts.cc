// What tests know of the parts of ops over classes.
#include <algorithm>
#include <cmath>
#include <limits>

#include "oneflow_core/functional.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::SoftmaxPartsOps {
namespace {

Tensors ExpSum(RefCall& c) {
  RefTensor s = Zeros(c.in[1].dims);
  const int64_t n = Columns(c.in[0]);
  for (int64_t i = 0; i < c.in[0].count(); ++i) s.values[i / n] += std::exp(c.in[0].values[i] - c.in[1].values[i / n]);
  return {s};
}

Tensors SoftmaxSums(RefCall& c) {
  Tensors x_and_m = {c.in[0], c.in[2]};
  RefCall sum{c.attrs, x_and_m, c.context};
  RefTensor z = Zeros(c.in[2].dims);
  for (int64_t row = 0; row < z.count(); ++row) {
    const int64_t label = static_cast<int64_t>(c.in[1].values[row]);
    z.values[row] = c.in[0].values[row * Columns(c.in[0]) + label] - c.in[2].values[row];
  }
  return {ExpSum(sum)[0], z};
}

Tensors SoftmaxLoss(RefCall& c) {
  RefTensor loss = Zeros(c.in[0].dims), lse = loss;
  for (int64_t i = 0; i < loss.count(); ++i) {
    loss.values[i] = std::log(c.in[1].values[i]) - c.in[2].values[i];
    lse.values[i] = c.in[0].values[i] + std::log(c.in[1].values[i]);
  }
  return {loss, lse};
}

Tensors SoftmaxApply(RefCall& c) {
  RefTensor y = c.in[0];
  const int64_t n = Columns(y);
  for (int64_t i = 0; i < y.count(); ++i) {
    y.values[i] = std::exp(y.values[i] - c.in[1].values[i / n]) / c.in[2].values[i / n];
  }
  return {y};
}

Tensors RowDot(RefCall& c) {
  RefTensor d = Zeros(Dims(c.in[0].dims.begin(), c.in[0].dims.end() - 1));
  const int64_t n = Columns(c.in[0]);
  for (int64_t i = 0; i < c.in[0].count(); ++i) d.values[i / n] += c.in[0].values[i] * c.in[1].values[i];
  return {d};
}

Tensors SoftmaxGradApply(RefCall& c) {
  RefTensor dx = c.in[1];
  const int64_t n = Columns(dx);
  for (int64_t i = 0; i < dx.count(); ++i) dx.values[i] *= c.in[0].values[i] - c.in[2].values[i / n];
  return {dx};
}

Tensors FirstIndex(RefCall& c) {
  RefTensor index = Zeros(c.in[1].dims, DType::kInt32);
  std::fill(index.values.begin(), index.values.end(), std::numeric_limits<int32_t>::max());
  const int64_t n = Columns(c.in[0]);
  for (int64_t i = c.in[0].count(); i-- > 0;) {
    if (c.in[0].values[i] == c.in[1].values[i / n]) index.values[i / n] = static_cast<double>(i % n);
  }
  return {index};
}

Tensors SameIndex(RefCall& c) {
  RefTensor y = Zeros(c.in[0].dims);
  for (int64_t i = 0; i < y.count(); ++i) y.values[i] = c.in[0].values[i] == c.in[1].values[i] ? 1 : 0;
  return {y};
}

constexpr const char kTypes[] = R"(
softmax_sums(f32[2,3,7] i32[2,3] f32[2,3]) = f32[2,3] f32[2,3]
softmax_sums(bf16[7] i32[] bf16[]) = f32[] f32[]
softmax_sums(f32[2,7] i32[3] f32[2]) ! labels is i32[3] but x, which is f32[2,7], needs i32[2]
softmax_sums(f32[2,7] i32[2] f32[2,1]) ! m is f32[2,1] but x, which is f32[2,7], needs f32[2]
softmax_sums(f32[] i32[] f32[]) ! x is f32[] but must have at least 1 dimensions
softmax_loss(f32[2,3] f32[2,3] f32[2,3]) = f32[2,3] f32[2,3]
softmax_loss(bf16[2] f32[2] f32[2]) = f32[2] f32[2]
softmax_loss(f32[2] f32[3] f32[2]) ! s is f32[3] but m, which is f32[2], needs f32[2]
softmax_loss(f32[2] f32[2] f32[3]) ! z is f32[3] but m, which is f32[2], needs f32[2]
softmax_loss(f32[2] bf16[2] f32[2]) ! s is bf16[2] but must be f32
exp_sum(f32[2,3,7] f32[2,3]) = f32[2,3]
exp_sum(bf16[2,7] bf16[2]) = f32[2]
exp_sum(f32[2,7] f32[7]) ! m is f32[7] but x, which is f32[2,7], needs f32[2]
exp_sum(bf16[2,7] f32[2]) ! dtypes differ: x is bf16[2,7], m is f32[2]
softmax_apply(f32[2,3,7] f32[2,3] f32[2,3]) = f32[2,3,7]
softmax_apply(bf16[2,7] bf16[2] f32[2]) = bf16[2,7]
softmax_apply(f32[2,7] f32[2] f32[3]) ! s is f32[3] but x, which is f32[2,7], needs f32[2]
softmax_apply(bf16[2,7] bf16[2] bf16[2]) ! s is bf16[2] but must be f32
row_dot(f32[2,3,7] f32[2,3,7]) = f32[2,3]
row_dot(bf16[2,7] bf16[2,7]) = f32[2]
row_dot(f32[2,7] f32[7]) ! a is f32[2,7], b is f32[7]; they must be the same
row_dot(f32[] f32[]) ! a is f32[] but must have at least 1 dimensions
softmax_grad_apply(f32[2,7] f32[2,7] f32[2]) = f32[2,7]
softmax_grad_apply(bf16[2,7] bf16[2,7] f32[2]) = bf16[2,7]
softmax_grad_apply(f32[2,7] f32[2,6] f32[2]) ! dy is f32[2,7], y is f32[2,6]; they must be the same
softmax_grad_apply(f32[2,7] f32[2,7] f32[7]) ! d is f32[7] but dy, which is f32[2,7], needs f32[2]
first_index(f32[2,3,7] f32[2,3]) = i32[2,3]
first_index(bf16[7] bf16[]) = i32[]
first_index(f32[2,7] f32[7]) ! m is f32[7] but x, which is f32[2,7], needs f32[2]
first_index(f32[2,2147483648] f32[2]) ! x is f32[2,2147483648], more columns than an i32 can number
same_index(i32[2,3] i32[2,3]) = f32[2,3]
same_index(i32[2] i32[]) ! a is i32[2], b is i32[]; they must be the same
same_index(f32[2] f32[2]) ! a is f32[2] but must be i32
)";

constexpr const char kSignatures[] = R"(
softmax_sums(f32[8,16], i32[8], f32[8]) | S(0),S(0),S(0)->S(0),S(0) S(1),B,B->P,P | - | - |
    sparse_softmax_cross_entropy_op.cpp, the variant for split classes, of which the rewriting pass makes parts | the
    parts of all ops over classes; the maximum before them is reduce_max
exp_sum(f32[8,16], f32[8]) | - | S(0),S(0)->S(0) S(1),B->P | - | - | -
softmax_apply(f32[8,16], f32[8], f32[8]) | - | S(0),S(0),S(0)->S(0) S(1),B,B->S(1) | - | - | -
row_dot(f32[8,16], f32[8,16]) | - | S(0),S(0)->S(0) S(1),S(1)->P P,B->P B,P->P | - | - | -
softmax_grad_apply(f32[8,16], f32[8,16], f32[8]) | - | S(0),S(0),S(0)->S(0) S(1),S(1),B->S(1) P,B,P->P | - | - | -
first_index(f32[8,16], f32[8]) | - | S(0),S(0)->S(0) S(1),B->P(min) | - | - | the part of top1_correct over classes
)";

// The largest element of each row, as the kernels see it.
RefTensor MaxOfRows(const RefTensor& x) {
  Tensors in = {Rounded(x)};
  return (*Reference("reduce_max", Axes({static_cast<int64_t>(x.dims.size()) - 1}, false), in))[0];
}

void AddExamples(Random& r, OpCases& cases) {
  const Dims rows = {5, 3}, dims = {5, 3, 7};
  cases.push_back({"softmax_sums", "small", {}, {r.Uniform(dims), r.Integers(rows, 7), r.Uniform(rows, -1, 1)}});
  cases.push_back({"softmax_sums", "few columns", {}, {r.Uniform({7, 3}), r.Integers({7}, 3), r.Uniform({7}, -1, 1)}});
  cases.push_back({"softmax_loss", "small", {}, {r.Uniform(rows), r.Uniform(rows, 1, 9), r.Uniform(rows)}});
  cases.push_back({"exp_sum", "small", {}, {r.Uniform(dims), r.Uniform(rows, 1, 2)}});
  cases.push_back({"softmax_apply", "small", {}, {r.Uniform(dims), r.Uniform(rows, 1, 2), r.Uniform(rows, 1, 9)}});
  cases.push_back({"row_dot", "small", {}, {r.Uniform(dims), r.Uniform(dims)}});
  cases.push_back({"softmax_grad_apply", "small", {}, {r.Uniform(dims), r.Uniform(dims, 0, 1), r.Uniform(rows)}});
  for (const Dims& shape : {dims, Dims{7, 3}}) {  // the same value in several parts, and in none
    const RefTensor m = Of(DType::kFloat32, r.Integers(Dims(shape.begin(), shape.end() - 1), 4));
    cases.push_back({"first_index", "small", {}, {Of(DType::kFloat32, r.Integers(shape, 3)), m}, 0});
  }
  cases.push_back({"same_index", "small", {}, {r.Integers({7, 5}, 2), r.Integers({7, 5}, 2)}, 0});
}

void AddEdges(Random& r, OpCases& cases) {
  for (const Dims& rows : {Dims{11}, Dims{2, 3}, Dims{}, Dims{0}, Dims{700}}) {
    for (const int64_t c : {1, 10, 256}) {
      Dims dims = rows;
      dims.push_back(c);
      const RefTensor x = r.Uniform(dims, -9, 9), m = MaxOfRows(x), labels = r.Integers(rows, c);
      cases.push_back({"softmax_sums", "rows", {}, {x, labels, m}, 5e-6});
      cases.push_back({"exp_sum", "rows", {}, {x, m}, 5e-6});
      cases.push_back(InPlace({"softmax_apply", "rows", {}, {x, m, r.Uniform(rows, 1, 9)}, 5e-6}, 0));
      cases.push_back({"row_dot", "rows", {}, {x, r.Uniform(dims)}, 5e-5});
      const RefTensor y = r.Uniform(dims, 0, 1), d = r.Uniform(rows);
      cases.push_back(InPlace({"softmax_grad_apply", "rows", {}, {x, y, d}, 5e-6}, 0));
      cases.push_back(InPlace({"softmax_grad_apply", "rows", {}, {x, x, d}, 5e-6}, 1));
      const RefTensor ties = Few(r, dims);
      RefTensor wanted = MaxOfRows(ties);
      if (wanted.count() > 3) wanted.values[3] = 99;  // of no column
      cases.push_back({"first_index", "ties", {}, {ties, wanted}, 0});
      cases.push_back({"same_index", "labels", {}, {labels, r.Integers(rows, c)}, 0});
    }
    cases.push_back({"softmax_loss", "rows", {}, {r.Uniform(rows, -9, 9), r.Uniform(rows, 1, 90), r.Uniform(rows)}});
    Dims none = rows;
    none.push_back(0);
    cases.push_back({"exp_sum", "no columns", {}, {r.Uniform(none), r.Uniform(rows)}, 0});
    cases.push_back({"row_dot", "no columns", {}, {r.Uniform(none), r.Uniform(none)}, 0});
    cases.push_back({"first_index", "no columns", {}, {r.Uniform(none), r.Uniform(rows)}, 0});
  }
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {.types = kTypes, .signatures = kSignatures, .examples = AddExamples, .edges = AddEdges};
  facts.reference = {{"softmax_sums", SoftmaxSums}, {"softmax_loss", SoftmaxLoss},
                     {"exp_sum", ExpSum},           {"softmax_apply", SoftmaxApply},
                     {"row_dot", RowDot},           {"softmax_grad_apply", SoftmaxGradApply},
                     {"first_index", FirstIndex},   {"same_index", SameIndex}};
  facts.dsl = {{[](Operands d) { return RowDot(d.F32({2, 3}), d.F32({2, 3})); }, "row_dot", "f32[2]"}};
  facts.without_gradient = {{"softmax_sums", "made after differentiation"},
                            {"softmax_loss", "made after differentiation"},
                            {"softmax_grad_apply", "made after differentiation"},
                            {"first_index", "ends in integers"},
                            {"same_index", "of integers"}};
  return facts;
}

}  // namespace oneflow::testing::SoftmaxPartsOps
