// What tests know of the ops at the ends of ragged values, and of the counts of their rows.
#include "oneflow_core/functional.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::RaggedOps {
namespace {

Tensors KeepRows(RefCall& c) {
  RefTensor y = c.in[0];
  y.ragged = static_cast<int>(c.in[1].dims.size());
  return {y};
}

Tensors PadRows(RefCall& c) {
  RefTensor y = c.in[0];
  y.ragged = -1;
  const RefTensor& counts = c.in[1];
  for (int64_t i = 0; i < y.count(); ++i) {
    const Dims at = Unravel(y.dims, i);
    const auto group = counts.values[Ravel(counts.dims, Dims(at.begin(), at.begin() + counts.dims.size()))];
    if (static_cast<double>(at[counts.dims.size()]) >= group) y.values[i] = 0;
  }
  return {y};
}

Tensors RowCounts(RefCall& c) {
  Dims dims = c.in[0].dims;
  const int64_t t = dims.back(), n = c.attrs.Int("size");
  dims.back() = n;
  RefTensor counts = Zeros(dims, DType::kInt32);
  for (int64_t i = 0; i < c.in[0].count(); ++i) counts.values[i / t * n + static_cast<int64_t>(c.in[0].values[i])] += 1;
  return {counts};
}

constexpr const char kTypes[] = R"(
keep_rows(f32[8,64,32] i32[8]) = f32[8,64~,32]
keep_rows(i32[8,4,64] i32[8,4]) = i32[8,4,64~]
keep_rows(f32[64,32] i32[]) = f32[64~,32]
keep_rows(f32[8,64,32] i32[4]) ! counts is i32[4] but x as f32[8,64~,32] needs i32[8]
keep_rows(f32[8] i32[8]) ! x is f32[8] but counts, which is i32[8], needs a dimension of rows behind 1
keep_rows(f32[8,64~,32] i32[8]) ! x is ragged already: f32[8,64~,32]
keep_rows(f32[8,64] f32[8]) ! counts is f32[8] but must be i32
pad_rows(f32[8,64~,32] i32[8]) = f32[8,64,32]
pad_rows(f32[64~] i32[]) = f32[64]
pad_rows(f32[8,64,32] i32[8]) ! x is not ragged: f32[8,64,32]
pad_rows(f32[8,64~,32] i32[8,64]) ! counts is i32[8,64] but x as f32[8,64~,32] needs i32[8]
row_counts(i32[4,100]) {size=8} = i32[4,8]
row_counts(i32[]) {size=8} ! ids is i32[] but must have at least 1 dimensions
row_counts(i32[4]) {size=0} ! attribute 'size' is 0 but must be at least 1
row_counts(f32[4]) {size=2} ! ids is f32[4] but must be i32
)";

RefTensor Ragged(RefTensor x, int dim) {
  x.ragged = dim;
  return x;
}

void AddExamples(Random& r, OpCases& cases) {
  cases.push_back({"keep_rows", "groups", {}, {r.Uniform({5, 7, 3}), r.Integers({5}, 8)}});
  cases.push_back({"keep_rows", "one group", {}, {r.Uniform({7, 3}), r.Integers({}, 8)}});
  cases.push_back({"pad_rows", "groups", {}, {Ragged(r.Uniform({5, 7, 3}), 1), r.Integers({5}, 8)}});
  cases.push_back(
      {"pad_rows", "two dimensions of groups", {}, {Ragged(r.Uniform({3, 5, 7}), 2), r.Integers({3, 5}, 8)}});
  cases.push_back({"row_counts", "", {{"size", int64_t{5}}}, {r.Integers({3, 7}, 5)}, 0});
}

void AddEdges(Random& r, OpCases& cases) {
  for (const DType dtype : kAllDTypes) {
    const RefTensor x = r.Small({9, 65, 33}, dtype), counts = r.Integers({9}, 66);
    cases.push_back(InPlace({"keep_rows", "of all dtypes", {}, {x, counts}, 0}, 0));
    cases.push_back(InPlace({"pad_rows", "of all dtypes", {}, {Ragged(x, 1), counts}, 0}, 0));
  }
  cases.push_back({"keep_rows", "empty", {}, {r.Uniform({0, 7, 3}), r.Integers({0}, 8)}, 0});
  cases.push_back({"pad_rows", "empty", {}, {Ragged(r.Uniform({4, 7, 0}), 1), r.Integers({4}, 8)}, 0});
  cases.push_back({"row_counts", "many", {{"size", int64_t{300}}}, {r.Integers({2, 5000}, 300)}, 0});
  cases.push_back({"row_counts", "of nothing", {{"size", int64_t{3}}}, {r.Integers({2, 0}, 3)}, 0});
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {.types = kTypes, .examples = AddExamples, .edges = AddEdges};
  facts.reference = {{"keep_rows", KeepRows}, {"pad_rows", PadRows}, {"row_counts", RowCounts}};
  // Every rank has all groups' counts, but not their rows.
  facts.wrong_signatures = {{"pad_rows", {2}, {"S(0),B->S(0)"}}, {"row_counts", {2}, {"S(1)->S(1)"}}};
  facts.dsl = {
      {[](Operands d) {
         return KeepRows(d.F32({2, 3, 8}), d.I32({2}));
       },
       "keep_rows", "f32[2,3~,8]"},
      {[](Operands d) {
         return PadRows(KeepRows(d.F32({2, 3, 8}), d.I32({2})));
       },
       "pad_rows", "f32[2,3,8]"},
      {[](Operands d) {
         return RowCounts(d.I32({2, 3}), 4);
       },
       "row_counts", "i32[2,4]"},
  };
  facts.without_gradient = {{"row_counts", "its result is an integer"}};
  return facts;
}

}  // namespace oneflow::testing::RaggedOps
