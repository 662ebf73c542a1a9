// What tests know of batch_matmul: a product for every matrix of a batch, whose dimensions broadcast.
#include "oneflow_core/functional.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::BatchMatmulOps {
namespace {

Tensors BatchMatmul(RefCall& c) {
  const bool ta = c.attrs.Bool("transpose_a"), tb = c.attrs.Bool("transpose_b");
  const Dims &a = c.in[0].dims, &b = c.in[1].dims;
  const int64_t m = a[a.size() - (ta ? 1 : 2)], k = a[a.size() - (ta ? 2 : 1)], n = b[b.size() - (tb ? 2 : 1)];
  const Dims a_batch(a.begin(), a.end() - 2), b_batch(b.begin(), b.end() - 2);
  const Dims batch = BroadcastDims(a_batch, b_batch);
  // Which matrix a batch uses: broadcast the matrices' numbers.
  const auto numbers = [](const Dims& dims) {
    RefTensor x = Zeros(dims);
    for (int64_t i = 0; i < x.count(); ++i) x.values[i] = static_cast<double>(i);
    return x;
  };
  const RefTensor a_number = numbers(a_batch), b_number = numbers(b_batch);
  Dims dims = batch;
  dims.insert(dims.end(), {m, n});
  RefTensor y = Zeros(dims);
  for (int64_t i = 0; i < Count(batch) && m * n > 0; ++i) {
    const Dims at = Unravel(batch, i);
    Product(c.in[0].values.data() + static_cast<int64_t>(Broadcast(a_number, at)) * m * k, ta,
            c.in[1].values.data() + static_cast<int64_t>(Broadcast(b_number, at)) * k * n, tb,
            y.values.data() + i * m * n, m, n, k);
  }
  return {y};
}

constexpr const char kTypes[] = R"(
batch_matmul(f32[5,2,3] f32[5,3,4]) = f32[5,2,4]
batch_matmul(f32[5,3,2] f32[5,3,4]) {transpose_a=true} = f32[5,2,4]
batch_matmul(f32[5,2,3] f32[5,4,3]) {transpose_b=true} = f32[5,2,4]
batch_matmul(f32[6,5,3,2] f32[6,5,4,3]) {transpose_a=true transpose_b=true} = f32[6,5,2,4]
batch_matmul(f32[2,3] f32[3,4]) = f32[2,4]
batch_matmul(bf16[5,2,3] bf16[5,3,4]) {out_dtype=f32} = f32[5,2,4]
batch_matmul(f32[5,2,3] f32[6,3,4]) ! leading dimensions differ: a is f32[5,2,3], b is f32[6,3,4]
batch_matmul(f32[5,2,3] f32[3,4]) ! leading dimensions differ: a is f32[5,2,3], b is f32[3,4]
batch_matmul(f32[5,2,3] f32[5,4,3]) ! inner dimensions differ: a is f32[5,2,3], b is f32[5,4,3]
batch_matmul(f32[5,2,3] f32[5,3,4]) {transpose_a=true} ! inner dimensions differ: a is f32[5,2,3] (transposed), b is
    f32[5,3,4]
batch_matmul(f32[3] f32[3,4]) ! a is f32[3] but must have at least 2 dimensions
)";

constexpr const char kSignatures[] = R"(
batch_matmul(f32[4,8,4], f32[4,4,16]) | S(0),S(0)->S(0) S(1),B->S(1) S(2),S(1)->P B,S(2)->S(2) P,B->P B,P->P | - | - |
    matmul_op.cpp | -
)";

void AddExamples(Random& r, OpCases& cases) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      cases.push_back({"batch_matmul",
                       "small",
                       {{"transpose_a", ta}, {"transpose_b", tb}},
                       {r.Uniform(ta ? Dims{5, 7, 4} : Dims{5, 4, 7}), r.Uniform(tb ? Dims{5, 3, 7} : Dims{5, 7, 3})}});
    }
  }
}

void AddEdges(Random& r, OpCases& cases) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      for (const auto& [batch_a, batch_b] :
           std::vector<std::pair<Dims, Dims>>{{{2, 3}, {2, 3}}, {{}, {}}, {{4, 1}, {3}}, {{0}, {0}}, {{1}, {5}}}) {
        Dims a = batch_a, b = batch_b;
        a.insert(a.end(), {ta ? 9 : 7, ta ? 7 : 9});
        b.insert(b.end(), {tb ? 5 : 9, tb ? 9 : 5});
        const AttrMap attrs = {{"transpose_a", ta}, {"transpose_b", tb}};
        cases.push_back({"batch_matmul", "batches", attrs, {r.Uniform(a), r.Uniform(b)}, 1e-5});
      }
    }
  }
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {.types = kTypes, .signatures = kSignatures, .examples = AddExamples, .edges = AddEdges};
  facts.reference = {{"batch_matmul", BatchMatmul}};
  facts.dsl = {{[](Operands d) {
                  return BatchMatMul(d.F32({5, 3, 2}), d.F32({5, 3, 4}), true);
                },
                "batch_matmul", "f32[5,2,4]"}};
  return facts;
}

}  // namespace oneflow::testing::BatchMatmulOps
