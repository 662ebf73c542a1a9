// What tests know of pad.
#include <algorithm>

#include "oneflow_core/functional.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::PadOps {
namespace {

Tensors Pad(RefCall& c) {
  const Dims before = c.attrs.Ints("before"), after = c.attrs.Ints("after");
  Dims dims = c.in[0].dims;
  for (size_t d = 0; d < dims.size(); ++d) dims[d] += before[d] + after[d];
  RefTensor y = Zeros(dims, c.in[0].dtype);
  std::fill(y.values.begin(), y.values.end(), c.attrs.Double("value"));
  Paste(c.in[0], before, &y);
  return {y};
}

constexpr const char kTypes[] = R"(
pad(f32[2,3]) {before=[1,0] after=[0,2]} = f32[3,5]
pad(i32[2]) {before=[1] after=[1] value=7} = i32[4]
pad(bool[]) {before=[] after=[]} = bool[]
pad(f32[2,3]) {before=[1] after=[0,2]} ! attribute 'before' is [1] but must have one size per dimension of x, which is
    f32[2,3]
pad(f32[2,3]) {before=[1,0] after=[0,-2]} ! attribute 'after' is [0,-2]: size -2 is negative
pad(f32[2,3]) {before=[1,0]} ! attribute 'after' is missing
pad(i32[2]) {before=[1] after=[1] value=0.5} ! attribute 'value' is 0.5 but x is i32[2]
pad(f32[2]) {before=[9223372036854775807] after=[0]} ! the result has more than 2^63 elements along dimension 0
)";

constexpr const char kSignatures[] = R"(
pad(f32[8,4]) {before=[0,1], after=[0,3]} | S(0)->S(0) | P->P | - | pad_op.cpp | P only around zeros
pad(f32[8,4]) {before=[0,1], after=[0,3], value=1.0} | S(0)->S(0) | - | - | pad_op.cpp | P only around zeros
)";

void AddExamples(Random& r, OpCases& cases) {
  for (const double value : {0.0, 2.0}) {
    const AttrMap attrs = {{"before", Dims{0, 2, 0}}, {"after", Dims{0, 1, 3}}, {"value", value}};
    cases.push_back({"pad", "small", attrs, {r.Uniform({7, 5, 3})}});
    cases.push_back({"pad", "integers", attrs, {r.Integers({7, 5, 3}, 100)}, 0});
  }
}

void AddEdges(Random& r, OpCases& cases) {
  for (const DType dtype : kAllDTypes) {
    const AttrMap attrs = {{"before", Dims{1, 0, 2}}, {"after", Dims{0, 3, 1}}, {"value", 1.0}};
    cases.push_back({"pad", "dtypes", attrs, {r.Small({4, 3, 5}, dtype)}, 0});
  }
  for (const DType dtype : {DType::kFloat32, DType::kInt32}) {
    const AttrMap attrs = {{"before", Dims{0, 0, 1, 2}}, {"after", Dims{0, 0, 0, 1}}, {"value", -3.0}};
    cases.push_back({"pad", "around pixels", attrs, {r.Small({2, 32, 3, 5}, dtype)}, 0});
  }
  cases.push_back({"pad",
                   "around channels",
                   {{"before", Dims{0, 16, 0, 0}}, {"after", Dims{1, 0, 0, 2}}},
                   {r.Uniform({2, 16, 3, 5})},
                   0});
  cases.push_back({"pad", "zeros", {{"before", Dims{2, 1}}, {"after", Dims{0, 5}}}, {r.Uniform({200, 37})}, 0});
  cases.push_back({"pad", "nothing to keep", {{"before", Dims{2, 1}}, {"after", Dims{1, 0}}}, {r.Uniform({0, 4})}, 0});
  cases.push_back({"pad", "nothing to add", {{"before", Dims{0, 0}}, {"after", Dims{0, 0}}}, {r.Uniform({3, 4})}, 0});
  cases.push_back({"pad", "to nothing", {{"before", Dims{0, 0}}, {"after", Dims{1, 0}}}, {r.Uniform({3, 0})}, 0});
  cases.push_back({"pad", "scalar", {{"before", Dims{}}, {"after", Dims{}}, {"value", 9.0}}, {r.Uniform({})}, 0});
}

void AddExtremes(Random& r, OpCases& cases) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    cases.push_back({"pad",
                     "narrow",
                     {{"before", Dims{0, 2}}, {"after", Dims{1, 0}}, {"value", 0.0}},
                     {Of(dtype, r.Uniform({7, 5}))}});
  }
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {
      .types = kTypes, .signatures = kSignatures, .examples = AddExamples, .edges = AddEdges, .extremes = AddExtremes};
  facts.reference = {{"pad", Pad}};
  facts.dsl = {{[](Operands d) { return Pad(d.F32({2, 3}), {0, 1}, {2, 0}); }, "pad", "f32[4,4]"}};
  return facts;
}

}  // namespace oneflow::testing::PadOps
