// What tests know of embedding and of its gradient.
#include "oneflow_core/functional.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::EmbeddingOps {
namespace {

Tensors Embedding(RefCall& c) {
  const int64_t h = c.in[0].dims[1];
  Dims dims = c.in[1].dims;
  dims.push_back(h);
  RefTensor y = Zeros(dims);
  for (int64_t i = 0; i < y.count(); ++i)
    y.values[i] = c.in[0].values[static_cast<int64_t>(c.in[1].values[i / h]) * h + i % h];
  return {y};
}

Tensors EmbeddingGrad(RefCall& c) {
  const int64_t h = Columns(c.in[0]);
  RefTensor dw = Zeros({c.attrs.Int("rows"), h});
  for (int64_t i = 0; i < c.in[0].count(); ++i) {
    dw.values[static_cast<int64_t>(c.in[1].values[i / h]) * h + i % h] += c.in[0].values[i];
  }
  return {dw};
}

constexpr const char kTypes[] = R"(
embedding(f32[10,4] i32[2,3]) = f32[2,3,4]
embedding(f32[10,4] i32[]) = f32[4]
embedding(f32[10,4] i32[2,3]) {out_dtype=bf16} = bf16[2,3,4]
embedding(f32[10,4] i64[2]) ! ids is i64[2] but must be i32
embedding(f32[10] i32[2]) ! w is f32[10] but must have 2 dimensions
embedding_grad(f32[2,3,4] i32[2,3]) {rows=10} = f32[10,4]
embedding_grad(bf16[2,3,4] i32[2,3]) {rows=10} = f32[10,4]
embedding_grad(f32[2,3,4] i32[2]) {rows=10} ! ids is i32[2] but dy, which is f32[2,3,4], needs i32[2,3]
embedding_grad(f32[2,4] i32[2]) ! attribute 'rows' is missing
)";

constexpr const char kSignatures[] = R"(
embedding(f32[16,8], i32[8,4]) | B,S(0)->S(0) B,S(1)->S(1) | S(0),B->P S(1),B->S(2) P,B->P | - | embedding_op.cpp | as
    gather; rows and columns are not split there
embedding_grad(f32[8,4,8], i32[8,4]) {rows=16} | S(0),S(0)->P S(1),S(1)->P | S(2),B->S(1) B,B->S(0) P,B->P | - |
    embedding_op.cpp | each rank keeps its own rows, or its columns
)";

void AddExamples(Random& r, OpCases& cases) {
  for (const auto& [rows, ids] :
       std::vector<std::pair<int64_t, Dims>>{{11, {7, 3}}, {3, {7}}}) {  // more and fewer than ranks
    Dims dy = ids;
    dy.push_back(5);
    cases.push_back({"embedding", "small", {}, {r.Uniform({rows, 5}), r.Integers(ids, rows)}});
    cases.push_back({"embedding_grad", "small", {{"rows", rows}}, {r.Uniform(dy), r.Integers(ids, rows)}});
  }
}

void AddEdges(Random& r, OpCases& cases) {
  for (const Dims& ids : {Dims{11}, Dims{2, 3}, Dims{0}, Dims{}, Dims{900}}) {
    for (const int64_t h : {1, 37, 64}) {
      Dims dy = ids;
      dy.push_back(h);
      cases.push_back({"embedding", "indices", {}, {r.Uniform({13, h}), r.Integers(ids, 13)}, 0});
      cases.push_back(
          {"embedding_grad", "indices", {{"rows", int64_t{13}}}, {r.Uniform(dy), r.Integers(ids, 13)}, 2e-5});
    }
  }
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {.types = kTypes, .signatures = kSignatures, .examples = AddExamples, .edges = AddEdges};
  facts.reference = {{"embedding", Embedding}, {"embedding_grad", EmbeddingGrad}};
  facts.dsl = {{[](Operands d) { return Embedding(d.F32({9, 4}), d.I32({2})); }, "embedding", "f32[2,4]"}};
  facts.without_gradient = {{"embedding_grad", "a gradient itself"}};
  return facts;
}

}  // namespace oneflow::testing::EmbeddingOps
