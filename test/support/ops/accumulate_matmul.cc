// What tests know of the sum over micro-batches of a product: of one of them it is the product.
#include "test/support/ops/kit.h"

namespace oneflow::testing::AccumulateMatmulOps {
namespace {

constexpr const char kTypes[] = R"(
accumulate_matmul_wgrad(f32[5,2,3] f32[5,2,4]) = f32[3,4]
accumulate_matmul_wgrad(bf16[2,3] bf16[2,4]) {transpose=true} = f32[4,3]
accumulate_matmul_wgrad(bf16[2,3] bf16[2,4]) = f32[3,4]
accumulate_matmul_wgrad(f32[2,3] f32[3,4]) ! d = matmul_wgrad(x, dy): leading dimensions differ: x is f32[2,3], dy is
    f32[3,4]
accumulate_matmul_wgrad(f32[2,5~,3] f32[2,5~,4]) ! f32[2,5~,3] must not be ragged
)";

constexpr const char kSignatures[] = R"(
accumulate_matmul_wgrad(f32[4,8,4], f32[4,8,16]) | - | S(0),S(0)->P S(1),S(1)->P S(2),B->S(0) B,S(2)->S(1) P,B->P
    B,P->P |
    - | - | as matmul_wgrad
)";

// Of the sizes [rows,k] and [rows,n]. A sum of f32 loses with each term, so what it may lose grows with their number.
void AddCases(Random& r, int64_t rows, int64_t k, int64_t n, OpCases& cases) {
  const double tolerance = std::max(5e-5, 2e-7 * static_cast<double>(rows));
  for (const bool transpose : {false, true}) {
    cases.push_back({"accumulate_matmul_wgrad",
                     "sum",
                     {{"transpose", transpose}},
                     {r.Uniform({rows, k}), r.Uniform({rows, n})},
                     tolerance});
  }
}
void AddNarrowCases(Random& r, int64_t rows, int64_t k, int64_t n, OpCases& cases) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    const RefTensor x = Rounded(Of(dtype, r.Uniform({rows, k}))), dy = Rounded(Of(dtype, r.Uniform({rows, n})));
    for (const bool transpose : {false, true}) {
      const AttrMap attrs = {{"transpose", transpose}};
      cases.push_back({"accumulate_matmul_wgrad", "of a narrow type", attrs, {x, dy}, 5e-4});
    }
  }
}

void AddExamples(Random& r, OpCases& cases) {
  AddCases(r, 7, 5, 3, cases);
  AddCases(r, 5, 3, 7, cases);
}

// Also as many rows and as few sums as are divided among threads by rows.
void AddEdges(Random& r, OpCases& cases) {
  for (const Dims& sizes : {Dims{0, 5, 3}, Dims{4, 0, 3}, Dims{130, 33, 65}, Dims{1024, 64, 96}}) {
    AddCases(r, sizes[0], sizes[1], sizes[2], cases);
    AddNarrowCases(r, sizes[0], sizes[1], sizes[2], cases);
  }
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {.types = kTypes, .signatures = kSignatures, .examples = AddExamples, .edges = AddEdges};
  return facts;
}

}  // namespace oneflow::testing::AccumulateMatmulOps
