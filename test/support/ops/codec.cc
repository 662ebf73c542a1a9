// What tests know of the ops of edges with a policy. addends speaks of ranks: here all are one, whose addend is x.
#include <cmath>

#include "test/support/ops/kit.h"

namespace oneflow::testing::CodecOps {
namespace {

Tensors Addends(RefCall& c) {
  Dims dims = {c.attrs.Int("count")};
  dims.insert(dims.end(), c.in[0].dims.begin(), c.in[0].dims.end());
  RefTensor y = Zeros(dims);
  std::copy(c.in[0].values.begin(), c.in[0].values.end(), y.values.begin());
  return {y};
}

double Dot(const RefTensor& x, int64_t i, int64_t j) {
  double sum = 0;
  for (int64_t row = 0; row < x.dims[0]; ++row) sum += x.values[row * x.dims[1] + i] * x.values[row * x.dims[1] + j];
  return sum;
}

Tensors Orthonormalize(RefCall& c) {
  RefTensor q = c.in[0];
  const int64_t n = q.dims[0], r = q.dims[1];
  for (int64_t i = 0; i < r; ++i) {
    const double before = Dot(q, i, i);
    for (int turn = 0; turn < 2; ++turn) {
      for (int64_t j = 0; j < i; ++j) {
        const double product = Dot(q, i, j);
        for (int64_t row = 0; row < n; ++row) q.values[row * r + i] -= product * q.values[row * r + j];
      }
    }
    const double after = Dot(q, i, i);
    for (int64_t row = 0; row < n; ++row) q.values[row * r + i] *= after > 1e-12 * before ? 1 / std::sqrt(after) : 0;
  }
  return {q};
}

constexpr const char kTypes[] = R"(
addends(f32[2,3]) {count=4} = f32[4,2,3]
addends(f32[]) {count=1} = f32[1]
addends(f32[2]) {count=0} ! attribute 'count' is 0 but must be at least 1
addends(i32[2]) {count=2} ! x is i32[2] but must be f32
orthonormalize(f32[5,2]) = f32[5,2]
orthonormalize(f32[5,2,3]) ! x is f32[5,2,3] but must have 2 dimensions
)";

void AddExamples(Random& r, OpCases& cases) {
  cases.push_back({"orthonormalize", "small", {}, {r.Uniform({7, 3})}});
  cases.push_back({"orthonormalize", "one column", {}, {r.Uniform({5, 1})}});
}

void AddEdges(Random& r, OpCases& cases) {
  for (const Dims& dims : std::vector<Dims>{{}, {7}, {3, 5}, {0, 4}}) {
    for (const int64_t count : {1, 4}) cases.push_back({"addends", "counts", {{"count", count}}, {r.Uniform(dims)}, 0});
  }
  for (const Dims& dims : std::vector<Dims>{{0, 2}, {3, 0}, {1, 1}, {300, 8}, {1000, 17}, {70000, 3}}) {
    cases.push_back({"orthonormalize", "sizes", {}, {r.Uniform(dims)}, 1e-5});
  }
  RefTensor x = r.Uniform({9, 5});
  for (int64_t row = 0; row < 9; ++row) {
    double* const at = &x.values[row * 5];
    at[1] = 0;
    at[3] = 2 * at[0] - at[2];
    at[4] *= 1e12;
  }
  cases.push_back({"orthonormalize", "zero, dependent and large columns", {}, {x}, 1e-5});
  cases.push_back({"orthonormalize", "more columns than rows", {}, {r.Uniform({2, 4})}, 1e-5});
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {.types = kTypes, .examples = AddExamples, .edges = AddEdges};
  facts.reference = {{"addends", Addends}, {"orthonormalize", Orthonormalize}};
  facts.without_gradient = {{"addends", "only the compiler adds it"},
                            {"orthonormalize", "gradients are compressed after differentiation"}};
  return facts;
}

}  // namespace oneflow::testing::CodecOps
