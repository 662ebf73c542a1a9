// What tests know of reshape. Examples: equal leading sizes, sizes that 2, 3, 4 and 6 divide on both sides, sizes of
// one, merged and parted groups.
#include "oneflow_core/functional.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::ReshapeOps {
namespace {

constexpr const char kTypes[] = R"(
reshape(f32[2,6]) {shape=[3,4]} = f32[3,4]
reshape(i32[1]) {shape=[]} = i32[]
reshape(f32[2,3]) {shape=[4]} ! x is f32[2,3] and has 6 elements, shape [4] has 4
reshape(f32[2,3]) {shape=[4,-1]} ! x is f32[2,3]: attribute 'shape' is [4,-1]: size -1 is negative
reshape(f32[0]) {shape=[0,-1]} ! x is f32[0]: attribute 'shape' is [0,-1]: size -1 is negative
)";

constexpr const char kSignatures[] = R"(
reshape(f32[8,16]) {shape=[8,4,4]} | S(0)->S(0) S(1)->S(1) P->P | - | - | reshape_op.cpp | a split factor: its leading
    part; divisibility is checked on the product of axes
reshape(f32[8,4,16]) {shape=[32,16]} | S(0)->S(0) S(2)->S(1) P->P | - | - | reshape_op.cpp | a merge: the leading factor
reshape(f32[8,16,4]) {shape=[4,2,64]} | S(0)->S(0) S(1)->S(2) P->P | - | - | reshape_op.cpp | both at once
)";

void AddExamples(Random& r, OpCases& cases) {
  for (const auto& [from, to] : std::vector<std::pair<Dims, Dims>>{{{7, 6}, {7, 2, 3}},
                                                                   {{24, 5}, {12, 2, 5}},
                                                                   {{6, 7}, {42}},
                                                                   {{48}, {12, 4}},
                                                                   {{1, 7, 1, 5}, {7, 5, 1}},
                                                                   {{1, 1}, {}},
                                                                   {{4, 6}, {3, 8}}}) {
    cases.push_back({"reshape", "small", {{"shape", to}}, {r.Uniform(from)}});
    cases.push_back({"reshape", "integers", {{"shape", to}}, {r.Integers(from, 100)}, 0});
  }
}

void AddEdges(Random& r, OpCases& cases) {
  for (const DType dtype : kAllDTypes) {
    cases.push_back({"reshape", "dtypes", {{"shape", Dims{14, 3}}}, {r.Small({6, 7}, dtype)}, 0});
  }
  cases.push_back({"reshape", "to a scalar", {{"shape", Dims{}}}, {r.Uniform({1, 1})}, 0});
  cases.push_back({"reshape", "empty", {{"shape", Dims{5, 0}}}, {r.Uniform({0, 3})}, 0});
}

void AddExtremes(Random& r, OpCases& cases) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    cases.push_back({"reshape", "narrow", {{"shape", Dims{5, 7}}}, {Of(dtype, r.Uniform({7, 5}))}});
  }
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {
      .types = kTypes, .signatures = kSignatures, .examples = AddExamples, .edges = AddEdges, .extremes = AddExtremes};
  facts.reference = {{"reshape", [](RefCall& c) {
                        RefTensor y = c.in[0];
                        y.dims = c.attrs.Ints("shape");
                        return Tensors{y};
                      }}};
  // Other elements.
  facts.wrong_signatures = {{"reshape", {3}, {"S(1)->S(2)"}}};
  facts.dsl = {{[](Operands d) { return Reshape(d.F32({2, 3}), {3, -1}); }, "reshape", "f32[3,2]"}};
  return facts;
}

}  // namespace oneflow::testing::ReshapeOps
