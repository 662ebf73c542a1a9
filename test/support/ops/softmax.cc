// What tests know of softmax and of its gradient.
#include <cmath>
#include <limits>

#include "oneflow_core/functional.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::SoftmaxOps {
namespace {

Tensors Softmax(RefCall& c) {
  RefTensor y = c.in[0];
  const int64_t n = Columns(y);
  for (int64_t row = 0; n > 0 && row < y.count() / n; ++row) {
    const double lse = LogSumExp(&c.in[0].values[row * n], n);
    for (int64_t i = row * n; i < (row + 1) * n; ++i) y.values[i] = std::exp(y.values[i] - lse);
  }
  return {y};
}

Tensors SoftmaxGrad(RefCall& c) {
  RefTensor dx = c.in[0];
  const RefTensor &dy = c.in[0], &y = c.in[1];
  const int64_t n = Columns(y);
  for (int64_t i = 0; i < dx.count(); ++i) {
    double dot = 0;
    for (int64_t j = i / n * n; j < (i / n + 1) * n; ++j) dot += dy.values[j] * y.values[j];
    dx.values[i] = y.values[i] * (dy.values[i] - dot);
  }
  return {dx};
}

constexpr const char kTypes[] = R"(
softmax(f32[2,3]) = f32[2,3]
softmax(f32[]) ! x is f32[] but must have at least 1 dimensions
softmax_grad(f32[2,3] f32[2,3]) = f32[2,3]
softmax_grad(f32[2,3] f32[2,4]) ! dy is f32[2,3], y is f32[2,4]; they must be the same
)";

constexpr const char kSignatures[] = R"(
softmax(f32[8,4,16]) | S(0)->S(0) S(1)->S(1) | - | - | softmax_op.cpp | classes through its parts, below: three numbers
    a row travel
)";

void AddExamples(Random& r, OpCases& cases) {
  cases.push_back({"softmax", "small", {}, {r.Uniform({7, 5, 6})}});
  cases.push_back({"softmax_grad", "small", {}, {r.Uniform({7, 5, 6}), r.Uniform({7, 5, 6}, 0, 1)}});
}

void AddEdges(Random& r, OpCases& cases) {
  for (const Dims& dims : {Dims{5, 37}, Dims{2, 3, 16}, Dims{1}, Dims{0, 4}, Dims{700, 129}}) {
    cases.push_back(InPlace({"softmax", "rows", {}, {r.Uniform(dims, -9, 9)}, 1e-6}, 0));
    cases.push_back(InPlace({"softmax_grad", "rows", {}, {r.Uniform(dims), r.Uniform(dims, 0, 1)}, 2e-5}, 0));
  }
}

void AddExtremes(Random& r, OpCases& cases) {
  cases.push_back({"softmax", "far apart", {}, {r.Uniform({7, 5, 6}, -80, 80)}});
  cases.push_back({"softmax", "infinities and NaN", {}, {With(r.Uniform({7, 5}), {-kInfinity, 1, -kInfinity, kNan})}});
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {
      .types = kTypes, .signatures = kSignatures, .examples = AddExamples, .edges = AddEdges, .extremes = AddExtremes};
  facts.reference = {{"softmax", Softmax}, {"softmax_grad", SoftmaxGrad}};
  // Needs all classes.
  facts.wrong_signatures = {{"softmax", {2}, {"S(2)->S(2)"}}};
  facts.dsl = {{[](Operands d) { return Softmax(d.F32({2, 3})); }, "softmax", "f32[2,3]"}};
  facts.without_gradient = {{"softmax_grad", "a gradient itself"}};
  return facts;
}

}  // namespace oneflow::testing::SoftmaxOps
