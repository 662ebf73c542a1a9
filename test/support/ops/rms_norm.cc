// What tests know of rms_norm and of its gradient.
#include <cmath>

#include "oneflow_core/functional.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::RmsNormOps {
namespace {

Tensors RmsNorm(RefCall& c) {
  const RefTensor& x = c.in[0];
  const int64_t n = Columns(x);
  RefTensor y = x, rstd = Zeros(Dims(x.dims.begin(), x.dims.end() - 1));
  for (int64_t row = 0; row < rstd.count(); ++row) {
    double squares = 0;
    for (int64_t i = row * n; i < (row + 1) * n; ++i) squares += x.values[i] * x.values[i];
    rstd.values[row] = 1 / std::sqrt(squares / n + c.attrs.Double("epsilon"));
    for (int64_t i = 0; i < n; ++i) y.values[row * n + i] *= rstd.values[row] * c.in[1].values[i];
  }
  return {y, rstd};
}

Tensors RmsNormGrad(RefCall& c) {
  const RefTensor &dy = c.in[0], &x = c.in[1], &gamma = c.in[2], &rstd = c.in[3];
  const int64_t n = Columns(x);
  RefTensor dx = Zeros(x.dims), dgamma = Zeros({n});
  for (int64_t row = 0; row < rstd.count(); ++row) {
    const double r = rstd.values[row];
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double d = dy.values[row * n + i], h = x.values[row * n + i] * r;
      sum += d * gamma.values[i] * h;
      dgamma.values[i] += d * h;
    }
    for (int64_t i = row * n; i < (row + 1) * n; ++i) {
      dx.values[i] = r * (dy.values[i] * gamma.values[i % n] - x.values[i] * r * sum / n);
    }
  }
  return {dx, dgamma};
}

constexpr const char kTypes[] = R"(
rms_norm(f32[2,3,4] f32[4]) {epsilon=1e-5} = f32[2,3,4] f32[2,3]
rms_norm(bf16[4] f32[4]) {epsilon=0} = bf16[4] f32[]
rms_norm(bf16[4] bf16[4]) {epsilon=0} ! gamma is bf16[4] but must be f32
rms_norm(f32[2,4] f32[3]) {epsilon=1e-5} ! gamma is f32[3] but x, which is f32[2,4], needs f32[4]
rms_norm(f32[2,4] f32[4]) {epsilon=-1.0} ! attribute 'epsilon' is -1 but must be at least 0
rms_norm(f32[2,4] f32[4]) ! attribute 'epsilon' is missing
rms_norm_grad(f32[2,4] f32[2,4] f32[4] f32[2]) = f32[2,4] f32[4]
rms_norm_grad(f32[2,4] f32[3,4] f32[4] f32[2]) ! dy is f32[2,4], x is f32[3,4]; they must be the same
rms_norm_grad(f32[2,4] f32[2,4] f32[4] f32[4]) ! rstd is f32[4] but x, which is f32[2,4], needs f32[2]
)";

constexpr const char kSignatures[] = R"(
rms_norm(f32[8,4,16], f32[16]) {epsilon=1e-5} | S(0),B->S(0),S(0) S(1),B->S(1),S(1) | - | - | rms_norm_op.cpp | -
rms_norm_grad(f32[8,4,16], f32[8,4,16], f32[16], f32[8,4]) | S(0),S(0),B,S(0)->S(0),P S(1),S(1),B,S(1)->S(1),P |
    P,B,B,B->P,P | - | rms_norm_op.cpp, the gradients of x and of the weight together | -
)";

void AddExamples(Random& r, OpCases& cases) {
  cases.push_back({"rms_norm", "small", {{"epsilon", 1e-3}}, {r.Uniform({7, 5, 6}), r.Uniform({6})}});
  cases.push_back({"rms_norm_grad",
                   "small",
                   {},
                   {r.Uniform({7, 5, 6}), r.Uniform({7, 5, 6}), r.Uniform({6}), r.Uniform({7, 5}, 0.5, 1)},
                   1e-4});
}

void AddEdges(Random& r, OpCases& cases) {
  ForRowsOf([&](const Dims& rows, int64_t c, const Dims& x) {
    cases.push_back({"rms_norm", "rows", {{"epsilon", 1e-5}}, {r.Uniform(x, 3, 9), r.Uniform({c})}, 2e-6});
    cases.push_back(
        {"rms_norm_grad", "rows", {}, {r.Uniform(x), r.Uniform(x), r.Uniform({c}), r.Uniform(rows, 0.5, 1)}, 5e-5});
  });
}

void AddExtremes(Random& r, OpCases& cases) {
  cases.push_back({"rms_norm", "far from zero", {{"epsilon", 1e-5}}, {r.Uniform({7, 5, 6}, 9, 11), r.Uniform({6})}});
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {
      .types = kTypes, .signatures = kSignatures, .examples = AddExamples, .edges = AddEdges, .extremes = AddExtremes};
  facts.reference = {{"rms_norm", RmsNorm}, {"rms_norm_grad", RmsNormGrad}};
  facts.dsl = {{[](Operands d) { return RmsNorm(d.F32({2, 3}), d.F32({3})); }, "rms_norm", "f32[2,3]"}};
  facts.without_gradient = {{"rms_norm_grad", "a gradient itself"}};
  return facts;
}

}  // namespace oneflow::testing::RmsNormOps
