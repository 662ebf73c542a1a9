// What tests know of concat.
#include "oneflow_core/functional.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::ConcatOps {
namespace {

Tensors Concat(RefCall& c) {
  Dims dims = c.in[0].dims, start(dims.size(), 0);
  const int64_t axis = Axis(c.attrs, dims.size());
  dims[axis] = 0;
  for (const RefTensor& x : c.in) dims[axis] += x.dims[axis];
  RefTensor y = Zeros(dims, c.in[0].dtype);
  for (const RefTensor& x : c.in) {
    Paste(x, start, &y);
    start[axis] += x.dims[axis];
  }
  return {y};
}

constexpr const char kTypes[] = R"(
concat(f32[2,3] f32[2,1]) {axis=1} = f32[2,4]
concat(i32[2] i32[0] i32[3]) {axis=0} = i32[5]
concat(f32[2,3] f32[3,3]) {axis=1} ! input 0 is f32[2,3], input 1 is f32[3,3]; they may differ only in dimension 1
concat(f32[2] bf16[2]) {axis=0} ! input 0 is f32[2], input 1 is bf16[2]; they may differ only in dimension 0
concat(f32[2] f32[2,1]) {axis=0} ! input 0 is f32[2], input 1 is f32[2,1]; they may differ only in dimension 0
concat(f32[2,1] f32[2]) {axis=1} ! input 0 is f32[2,1], input 1 is f32[2]; they may differ only in dimension 1
concat() {axis=0} ! takes at least 1 input but is given 0
)";

constexpr const char kSignatures[] = R"(
concat(f32[8,4], f32[8,16]) {axis=1} | S(0),S(0)->S(0) P,P->P | - | - | concat_op.cpp | -
)";

void AddExamples(Random& r, OpCases& cases) {
  cases.push_back(
      {"concat", "small", {{"axis", int64_t{1}}}, {r.Uniform({7, 5}), r.Uniform({7, 1}), r.Uniform({7, 2})}});
  cases.push_back(
      {"concat", "integers", {{"axis", int64_t{0}}}, {r.Integers({2, 7}, 100), r.Integers({5, 7}, 100)}, 0});
}

void AddEdges(Random& r, OpCases& cases) {
  for (const DType dtype : kAllDTypes) {
    cases.push_back({"concat",
                     "dtypes",
                     {{"axis", int64_t{1}}},
                     {r.Small({4, 2}, dtype), r.Small({4, 0}, dtype), r.Small({4, 5}, dtype)},
                     0});
  }
  cases.push_back(
      {"concat", "first dimension", {{"axis", int64_t{0}}}, {r.Uniform({2, 3, 5}), r.Uniform({4, 3, 5})}, 0});
}

void AddExtremes(Random& r, OpCases& cases) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    cases.push_back(
        {"concat", "narrow", {{"axis", int64_t{1}}}, {Of(dtype, r.Uniform({7, 5})), Of(dtype, r.Uniform({7, 2}))}});
  }
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {
      .types = kTypes, .signatures = kSignatures, .examples = AddExamples, .edges = AddEdges, .extremes = AddExtremes};
  facts.reference = {{"concat", Concat}};
  facts.dsl = {{[](Operands d) {
                  return oneflow::Concat({d.F32({2, 3}), d.F32({2, 3}), d.F32({2, 3})}, -1);
                },
                "concat", "f32[2,9]"}};
  return facts;
}

}  // namespace oneflow::testing::ConcatOps
