// What tests know of bias_add and of its gradient.
#include "oneflow_core/functional.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::BiasOps {
namespace {

Tensors BiasAdd(RefCall& c) {
  RefTensor y = c.in[0];
  const int64_t axis = Axis(c.attrs, y.dims.size(), -1);
  for (int64_t i = 0; i < y.count(); ++i) y.values[i] += c.in[1].values[Unravel(y.dims, i)[axis]];
  return {y};
}

Tensors BiasGrad(RefCall& c) {
  const RefTensor& dy = c.in[0];
  const int64_t axis = Axis(c.attrs, dy.dims.size(), -1);
  RefTensor db = Zeros({dy.dims[axis]}, dy.dtype);
  for (int64_t i = 0; i < dy.count(); ++i) db.values[Unravel(dy.dims, i)[axis]] += dy.values[i];
  return {db};
}

constexpr const char kTypes[] = R"(
bias_add(f32[2,3] f32[3]) = f32[2,3]
bias_add(f32[2,3,4,5] f32[3]) {axis=1} = f32[2,3,4,5]
bias_add(f32[2,3] f32[3]) {axis=-1} = f32[2,3]
bias_add(bf16[2,3] f32[3]) = bf16[2,3]
bias_add(bf16[2,3] bf16[3]) ! b is bf16[3] but must be f32
bias_add(f32[2,3] f32[2]) ! b is f32[2] but dimension 1 of x, which is f32[2,3], has 3
bias_add(f32[2,3] f32[3]) {axis=2} ! attribute 'axis' is 2 but must be in [-1, 1]
bias_add(f32[2,3] f32[1,3]) ! b is f32[1,3] but must have 1 dimensions
bias_add(f32[] f32[1]) ! x is f32[] but must have at least 1 dimensions
bias_grad(f32[2,3]) = f32[3]
bias_grad(f32[2,3,4,5]) {axis=1} = f32[3]
bias_grad(bf16[2,3]) = f32[3]
bias_grad(f32[]) ! dy is f32[] but must have at least 1 dimensions
)";

constexpr const char kSignatures[] = R"(
bias_add(f32[8,4,16], f32[4]) {axis=1} | S(0),B->S(0) S(1),S(0)->S(1) S(2),B->S(2) | P,P->P | - | bias_add_op.cpp | P +
    b is offered by neither: it would add b once per rank
)";

void AddExamples(Random& r, OpCases& cases) {
  for (const auto& [dims, axis] : std::vector<std::pair<Dims, int64_t>>{{{7, 5}, -1}, {{5, 7, 3}, 1}}) {
    const int64_t n = axis < 0 ? dims.back() : dims[axis];
    cases.push_back({"bias_add", "small", {{"axis", axis}}, {r.Uniform(dims), r.Uniform({n})}});
    cases.push_back({"bias_grad", "small", {{"axis", axis}}, {r.Uniform(dims)}});
  }
}

void AddEdges(Random& r, OpCases& cases) {
  for (const auto& [dims, axis] : std::vector<std::pair<Dims, int64_t>>{{{3, 5, 37}, -1},
                                                                        {{6, 4}, 1},
                                                                        {{2, 5, 3, 7}, 1},
                                                                        {{4, 3}, 0},
                                                                        {{0, 4}, -1},
                                                                        {{2, 3, 0, 4}, 1},
                                                                        {{1000, 65}, -1},
                                                                        {{200, 3, 9, 9}, 1},
                                                                        {{70, 32, 3, 5}, 1}}) {
    const int64_t n = dims[axis < 0 ? axis + dims.size() : axis];
    cases.push_back(InPlace({"bias_add", "axis", {{"axis", axis}}, {r.Uniform(dims), r.Uniform({n})}}, 0));
    cases.push_back({"bias_grad", "axis", {{"axis", axis}}, {r.Uniform(dims)}, 1e-5});
  }
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {.types = kTypes, .signatures = kSignatures, .examples = AddExamples, .edges = AddEdges};
  facts.reference = {{"bias_add", BiasAdd}, {"bias_grad", BiasGrad}};
  // Adds the bias once per rank.
  facts.wrong_signatures = {{"bias_add", {2}, {"P,B->P"}}};
  facts.dsl = {{[](Operands d) {
                  return BiasAdd(d.F32({2, 3}), d.F32({3}));
                },
                "bias_add", "f32[2,3]"},
               {[](Operands d) {
                  return BiasAdd(d.F32({2, 3, 8, 8}), d.F32({3}), 1);
                },
                "bias_add", "f32[2,3,8,8]"},
               {[](Operands d) {
                  return BiasAdd(d.F32({2, 3, 8, 8}), d.F32({3}), -3);
                },
                "bias_add", "f32[2,3,8,8]"}};
  facts.without_gradient = {{"bias_grad", "a gradient itself"}};
  return facts;
}

}  // namespace oneflow::testing::BiasOps
