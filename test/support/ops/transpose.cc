// What tests know of transpose.
#include "oneflow_core/functional.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::TransposeOps {
namespace {

Tensors Transpose(RefCall& c) {
  const RefTensor& x = c.in[0];
  const Dims perm = c.attrs.Ints("perm");
  Dims dims(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) dims[i] = x.dims[perm[i]];
  RefTensor y = Zeros(dims, x.dtype);
  for (int64_t i = 0; i < y.count(); ++i) {
    const Dims at = Unravel(dims, i);
    Dims from(perm.size());
    for (size_t d = 0; d < perm.size(); ++d) from[perm[d]] = at[d];
    y.values[i] = x.values[Ravel(x.dims, from)];
  }
  return {y};
}

constexpr const char kTypes[] = R"(
transpose(f32[2,3,4]) {perm=[2,0,1]} = f32[4,2,3]
transpose(i32[]) {perm=[]} = i32[]
transpose(f32[2,3]) {perm=[0]} ! attribute 'perm' is [0] but must permute the dimensions of x, which is f32[2,3]
transpose(f32[2,3]) {perm=[0,0]} ! attribute 'perm' is [0,0] but must permute the dimensions of x, which is f32[2,3]
transpose(f32[2,3]) {perm=[0,-1]} ! attribute 'perm' is [0,-1] but must permute the dimensions of x, which is f32[2,3]
)";

constexpr const char kSignatures[] = R"(
transpose(f32[8,4,16]) {perm=[2,0,1]} | S(0)->S(1) S(1)->S(2) S(2)->S(0) P->P | - | - | transpose_ops.cpp | -
)";

void AddExamples(Random& r, OpCases& cases) {
  cases.push_back({"transpose", "small", {{"perm", Dims{2, 0, 1}}}, {r.Uniform({7, 5, 3})}});
  cases.push_back({"transpose", "integers", {{"perm", Dims{0, 2, 1}}}, {r.Integers({7, 5, 3}, 100)}, 0});
}

void AddEdges(Random& r, OpCases& cases) {
  for (const DType dtype : kAllDTypes) {
    cases.push_back({"transpose", "dtypes", {{"perm", Dims{1, 0}}}, {r.Small({5, 37}, dtype)}, 0});
  }
  const std::pair<Dims, Dims> permutations[] = {{{4, 6, 5}, {2, 0, 1}},
                                                {{3, 4, 5, 6}, {0, 2, 1, 3}},
                                                {{3, 4, 5, 6}, {3, 2, 1, 0}},
                                                {{1, 5, 1}, {2, 1, 0}},
                                                {{0, 3}, {1, 0}},
                                                {{257, 131}, {1, 0}},
                                                {{7}, {0}},
                                                {{20, 33, 47}, {0, 2, 1}}};
  for (const auto& [dims, perm] : permutations) {
    cases.push_back({"transpose", "permutation", {{"perm", perm}}, {r.Uniform(dims)}, 0});
  }
}

void AddExtremes(Random& r, OpCases& cases) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    cases.push_back({"transpose", "narrow", {{"perm", Dims{2, 0, 1}}}, {Of(dtype, r.Uniform({7, 5, 3}))}});
  }
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {
      .types = kTypes, .signatures = kSignatures, .examples = AddExamples, .edges = AddEdges, .extremes = AddExtremes};
  facts.reference = {{"transpose", Transpose}};
  facts.dsl = {{[](Operands d) {
                  return Transpose(d.F32({2, 3}), {1, 0});
                },
                "transpose", "f32[3,2]"},
               {[](Operands d) {
                  return Transpose(d.F32({2, 3, 8, 8}), {0, -1, 1, 2});
                },
                "transpose", "f32[2,8,3,8]"}};
  return facts;
}

}  // namespace oneflow::testing::TransposeOps
