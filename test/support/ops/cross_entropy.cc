// What tests know of softmax_cross_entropy, of its gradient, and of top1_correct.
#include <algorithm>
#include <cmath>

#include "oneflow_core/functional.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::CrossEntropyOps {
namespace {

Tensors SoftmaxCrossEntropy(RefCall& c) {
  const int64_t n = Columns(c.in[0]);
  RefTensor loss = Zeros(c.in[1].dims), lse = loss;
  for (int64_t row = 0; row < loss.count(); ++row) {
    lse.values[row] = LogSumExp(&c.in[0].values[row * n], n);
    loss.values[row] = lse.values[row] - c.in[0].values[row * n + static_cast<int64_t>(c.in[1].values[row])];
  }
  return {loss, lse};
}

Tensors SoftmaxCrossEntropyGrad(RefCall& c) {
  RefTensor dx = c.in[1];
  const int64_t n = Columns(dx);
  for (int64_t i = 0; i < dx.count(); ++i) {
    const double hit = i % n == static_cast<int64_t>(c.in[2].values[i / n]) ? 1 : 0;
    dx.values[i] = c.in[0].values[i / n] * (std::exp(dx.values[i] - c.in[3].values[i / n]) - hit);
  }
  return {dx};
}

Tensors Top1Correct(RefCall& c) {
  const int64_t n = Columns(c.in[0]);
  RefTensor y = Zeros(c.in[1].dims);
  for (int64_t row = 0; row < y.count(); ++row) {
    const double* const x = &c.in[0].values[row * n];
    y.values[row] = std::max_element(x, x + n) - x == static_cast<int64_t>(c.in[1].values[row]) ? 1 : 0;
  }
  return {y};
}

constexpr const char kTypes[] = R"(
softmax_cross_entropy(f32[2,3,7] i32[2,3]) = f32[2,3] f32[2,3]
softmax_cross_entropy(bf16[7] i32[]) = f32[] f32[]
softmax_cross_entropy(f32[2,7] i32[3]) ! labels is i32[3] but logits, which is f32[2,7], needs i32[2]
softmax_cross_entropy(f32[2,7] f32[2]) ! labels is f32[2] but must be i32
softmax_cross_entropy_grad(f32[2] f32[2,7] i32[2] f32[2]) = f32[2,7]
softmax_cross_entropy_grad(f32[3] f32[2,7] i32[2] f32[2]) ! dloss is f32[3] but logits, which is f32[2,7], needs f32[2]
softmax_cross_entropy_grad(f32[2] f32[2,7] i32[2] bf16[2]) ! lse is bf16[2] but must be f32
top1_correct(f32[2,7] i32[2]) = f32[2]
top1_correct(f32[2,7] i32[7]) ! labels is i32[7] but logits, which is f32[2,7], needs i32[2]
)";

constexpr const char kSignatures[] = R"(
softmax_cross_entropy(f32[8,16], i32[8]) | S(0),S(0)->S(0),S(0) | - | - | sparse_softmax_cross_entropy_op.cpp | classes
    through its parts; there an op of its own for split classes, rewritten by a pass
top1_correct(f32[8,16], i32[8]) | S(0),S(0)->S(0) | - | - | in_top_k_op.cpp | classes through its parts
)";

void AddExamples(Random& r, OpCases& cases) {
  cases.push_back({"softmax_cross_entropy", "small", {}, {r.Uniform({5, 3, 7}), r.Integers({5, 3}, 7)}});
  cases.push_back({"softmax_cross_entropy_grad",
                   "small",
                   {},
                   {r.Uniform({5, 3}), r.Uniform({5, 3, 7}), r.Integers({5, 3}, 7), r.Uniform({5, 3}, 1, 3)}});
  cases.push_back({"top1_correct", "small", {}, {r.Uniform({7, 5}), r.Integers({7}, 5)}, 0});
}

void AddEdges(Random& r, OpCases& cases) {
  for (const Dims& rows : {Dims{11}, Dims{2, 3}, Dims{0}, Dims{700}}) {
    for (const int64_t c : {1, 10, 256}) {
      Dims logits = rows;
      logits.push_back(c);
      cases.push_back({"softmax_cross_entropy", "rows", {}, {r.Uniform(logits, -9, 9), r.Integers(rows, c)}, 2e-6});
      cases.push_back({"softmax_cross_entropy_grad",
                       "rows",
                       {},
                       {r.Uniform(rows), r.Uniform(logits, -3, 0), r.Integers(rows, c), r.Uniform(rows, 0, 3)},
                       2e-6});
      cases.push_back({"top1_correct", "ties", {}, {Few(r, logits), r.Integers(rows, c)}, 0});
    }
  }
}

void AddExtremes(Random& r, OpCases& cases) {
  cases.push_back({"softmax_cross_entropy", "far apart", {}, {r.Uniform({5, 3, 7}, -80, 80), r.Integers({5, 3}, 7)}});
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {
      .types = kTypes, .signatures = kSignatures, .examples = AddExamples, .edges = AddEdges, .extremes = AddExtremes};
  facts.reference = {{"softmax_cross_entropy", SoftmaxCrossEntropy},
                     {"softmax_cross_entropy_grad", SoftmaxCrossEntropyGrad},
                     {"top1_correct", Top1Correct}};
  facts.dsl = {{[](Operands d) {
                  return SoftmaxCrossEntropy(d.F32({2, 7}), d.I32({2}));
                },
                "softmax_cross_entropy", "f32[2]"},
               {[](Operands d) {
                  return Top1Correct(d.F32({2, 7}), d.I32({2}));
                },
                "top1_correct", "f32[2]"}};
  facts.without_gradient = {{"softmax_cross_entropy_grad", "a gradient itself"},
                            {"top1_correct", "not differentiated"}};
  return facts;
}

}  // namespace oneflow::testing::CrossEntropyOps
