// What tests know of layer_norm and of its gradient.
#include <cmath>

#include "oneflow_core/functional.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::LayerNormOps {
namespace {

Tensors LayerNorm(RefCall& c) {
  const RefTensor& x = c.in[0];
  const int64_t n = Columns(x);
  RefTensor y = x, mean = Zeros(Dims(x.dims.begin(), x.dims.end() - 1)), rstd = mean;
  for (int64_t row = 0; row < mean.count(); ++row) {
    double sum = 0, squares = 0;
    for (int64_t i = row * n; i < (row + 1) * n; ++i) sum += x.values[i];
    mean.values[row] = sum / n;
    for (int64_t i = row * n; i < (row + 1) * n; ++i) squares += std::pow(x.values[i] - mean.values[row], 2);
    rstd.values[row] = 1 / std::sqrt(squares / n + c.attrs.Double("epsilon", 1e-5));
    for (int64_t i = 0; i < n; ++i) {
      const double h = (x.values[row * n + i] - mean.values[row]) * rstd.values[row];
      y.values[row * n + i] = h * c.in[1].values[i] + c.in[2].values[i];
    }
  }
  return {y, mean, rstd};
}

Tensors LayerNormGrad(RefCall& c) {
  const RefTensor &dy = c.in[0], &x = c.in[1], &gamma = c.in[2], &mean = c.in[3], &rstd = c.in[4];
  const int64_t n = Columns(x);
  RefTensor dx = Zeros(x.dims), dgamma = Zeros({n}), dbeta = Zeros({n});
  for (int64_t row = 0; row < mean.count(); ++row) {
    double sum_g = 0, sum_gh = 0;
    const auto h = [&](int64_t i) { return (x.values[row * n + i] - mean.values[row]) * rstd.values[row]; };
    for (int64_t i = 0; i < n; ++i) {
      const double d = dy.values[row * n + i];
      sum_g += d * gamma.values[i];
      sum_gh += d * gamma.values[i] * h(i);
      dgamma.values[i] += d * h(i);
      dbeta.values[i] += d;
    }
    for (int64_t i = 0; i < n; ++i) {
      dx.values[row * n + i] =
          rstd.values[row] * (dy.values[row * n + i] * gamma.values[i] - sum_g / n - h(i) * sum_gh / n);
    }
  }
  return {dx, dgamma, dbeta};
}

constexpr const char kTypes[] = R"(
layer_norm(f32[2,3,4] f32[4] f32[4]) {epsilon=1e-5} = f32[2,3,4] f32[2,3] f32[2,3]
layer_norm(bf16[2,4] f32[4] f32[4]) {epsilon=0} = bf16[2,4] f32[2] f32[2]
layer_norm(bf16[2,4] bf16[4] f32[4]) {epsilon=0} ! gamma is bf16[4] but must be f32
layer_norm(f32[2,4] f32[3] f32[4]) {epsilon=1e-5} ! gamma is f32[3] but x, which is f32[2,4], needs f32[4]
layer_norm(f32[2,4] f32[4] f32[2]) {epsilon=1e-5} ! beta is f32[2] but x, which is f32[2,4], needs f32[4]
layer_norm(f32[2,4] f32[4] f32[4]) ! attribute 'epsilon' is missing
layer_norm(f32[2,4] f32[4] f32[4]) {epsilon=-1.0} ! attribute 'epsilon' is -1 but must be at least 0
layer_norm_grad(f32[2,4] f32[2,4] f32[4] f32[2] f32[2]) = f32[2,4] f32[4] f32[4]
layer_norm_grad(bf16[2,4] bf16[2,4] f32[4] f32[2] f32[2]) = bf16[2,4] f32[4] f32[4]
layer_norm_grad(f32[2,4] f32[3,4] f32[4] f32[2] f32[2]) ! dy is f32[2,4], x is f32[3,4]; they must be the same
layer_norm_grad(f32[2,4] f32[2,4] f32[4] f32[2] f32[4]) ! rstd is f32[4] but x, which is f32[2,4], needs f32[2]
)";

constexpr const char kSignatures[] = R"(
layer_norm(f32[8,4,16], f32[16], f32[16]) {epsilon=1e-5} | S(0),B,B->S(0),S(0),S(0) S(1),B,B->S(1),S(1),S(1) | - | - |
    layer_norm_op.cpp | -
layer_norm_grad(f32[8,4,16], f32[8,4,16], f32[16], f32[8,4], f32[8,4]) | S(0),S(0),B,S(0),S(0)->S(0),P,P
    S(1),S(1),B,S(1),S(1)->S(1),P,P | P,B,B,B,B->P,P,P | - | layer_norm_op.cpp, the fused gradient | -
)";

void AddExamples(Random& r, OpCases& cases) {
  cases.push_back({"layer_norm", "small", {{"epsilon", 1e-3}}, {r.Uniform({7, 5, 6}), r.Uniform({6}), r.Uniform({6})}});
  cases.push_back(
      {"layer_norm_grad",
       "small",
       {},
       {r.Uniform({7, 5, 6}), r.Uniform({7, 5, 6}), r.Uniform({6}), r.Uniform({7, 5}), r.Uniform({7, 5}, 0.5, 1)},
       1e-4});
}

void AddEdges(Random& r, OpCases& cases) {
  ForRowsOf([&](const Dims& rows, int64_t c, const Dims& x) {
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
  });
}

void AddExtremes(Random& r, OpCases& cases) {
  cases.push_back({"layer_norm",
                   "far from zero",
                   {{"epsilon", 1e-5}},
                   {r.Uniform({7, 5, 6}, 9, 11), r.Uniform({6}), r.Uniform({6})}});
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {
      .types = kTypes, .signatures = kSignatures, .examples = AddExamples, .edges = AddEdges, .extremes = AddExtremes};
  facts.reference = {{"layer_norm", LayerNorm}, {"layer_norm_grad", LayerNormGrad}};
  facts.dsl = {{[](Operands d) { return LayerNorm(d.F32({2, 3}), d.F32({3}), d.F32({3})); }, "layer_norm", "f32[2,3]"}};
  facts.without_gradient = {{"layer_norm_grad", "a gradient itself"}};
  return facts;
}

}  // namespace oneflow::testing::LayerNormOps
