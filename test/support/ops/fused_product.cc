// What tests know of products by weights in panels with what follows them.
#include <algorithm>
#include <cmath>

#include "oneflow_core/packed.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::FusedProductOps {
namespace {

constexpr const char kTypes[] = R"(
packed_matmul_bias(bf16[5,3,96] bf16[2,48,64,2] f32[128]) = bf16[5,3,128]
packed_matmul_bias(bf16[3,96] bf16[2,48,64,2] f32[128]) {out_dtype=f32 axis=1} = f32[3,128]
packed_matmul_bias(bf16[3,96] bf16[2,48,64,2] f32[96]) ! y = bias_add(z, b): b is f32[96] but dimension 1 of x, which is
    bf16[3,128], has 128
packed_matmul_bias(bf16[3,64] bf16[2,48,64,2] f32[128]) ! z = packed_matmul(x, w): inner dimensions differ: a is
    bf16[3,64], w is bf16[2,48,64,2] of 96 rows
packed_matmul_bias_gelu(bf16[3,96] bf16[2,48,64,2] f32[128]) = bf16[3,128] bf16[3,128]
packed_matmul_bias_gelu(bf16[3,96] bf16[2,48,32,2] f32[128]) ! z = packed_matmul(x, w): w is bf16[2,48,32,2] but must be
    bf16[n/64,k/2,64,2]
packed_matmul_gelu_bias_grad(bf16[3,96] bf16[2,48,64,2] bf16[3,128]) = bf16[3,128] f32[128]
packed_matmul_gelu_bias_grad(bf16[3,64] bf16[2,48,64,2] bf16[3,128]) ! z = packed_matmul(dy, w): inner dimensions
    differ: a is bf16[3,64], w is bf16[2,48,64,2] of 96 rows
sum_packed_matmul(bf16[3,96] bf16[2,48,64,2] bf16[3,32] bf16[2,16,64,2]) {out_dtype=bf16} = bf16[3,128]
sum_packed_matmul(bf16[3,32] bf16[2,16,64,2] bf16[3,32] bf16[2,16,64,2] bf16[3,64] bf16[2,32,64,2]) = f32[3,128]
sum_packed_matmul(bf16[3,32] bf16[2,16,64,2] bf16[3,32] bf16[1,16,64,2]) ! d = add_n(x, y): input 0 is f32[3,128],
    input 1 is f32[3,64]; they must be the same
)";

constexpr const char kSignatures[] = R"(
packed_matmul_bias(bf16[8,128], bf16[4,64,64,2], f32[256]) | - | S(0),B,B->S(0) B,S(0),S(0)->S(1) | - | - | as
    packed_matmul, but that a part of a sum is no whole one, nor are addends of f32 rounded
packed_matmul_bias(bf16[8,128], bf16[4,64,64,2], f32[256]) {out_dtype="f32"} | - | S(0),B,B->S(0) B,S(0),S(0)->S(1)
    S(1),S(1),P->P P,B,P->P | - | - | as packed_matmul_bias to bf16, of addends that stay f32
packed_matmul_bias_gelu(bf16[8,128], bf16[4,64,64,2], f32[256]) | - | S(0),B,B->S(0),S(0) B,S(0),S(0)->S(1),S(1) | - |
    - |
    as packed_matmul_bias; a gelu is not linear
packed_matmul_gelu_bias_grad(bf16[8,128], bf16[4,64,64,2], bf16[8,256]) | - | S(0),B,S(0)->S(0),P B,S(0),S(1)->S(1),S(0)
    S(1),S(1),B->P,P P,B,B->P,P | - | - | as gelu_bias_grad
sum_packed_matmul(bf16[8,128], bf16[4,64,64,2], bf16[8,128], bf16[4,64,64,2]) | - | S(0),B,S(0),B->S(0)
    S(1),S(1),S(1),S(1)->P S(1),S(1),P,B->P B,S(0),B,S(0)->S(1) P,B,S(1),S(1)->P P,B,P,B->P | - | - | addends of all
    products, each in one of the ways of packed_matmul
sum_packed_matmul(bf16[8,128], bf16[4,64,64,2], bf16[8,64], bf16[4,32,64,2]) | - | S(0),B,S(0),B->S(0)
    S(1),S(1),S(1),S(1)->P S(1),S(1),P,B->P B,S(0),B,S(0)->S(1) P,B,S(1),S(1)->P P,B,P,B->P | - | - | of sums of other
    lengths too
)";

RefTensor Narrow(RefTensor x) { return Of(DType::kBFloat16, std::move(x)); }

// Every op on an a of these rows of k numbers, and weights of n columns; the result is of that type. Weights are so
// small that what parts of a are rounded by stays within `tolerance` (packed_matmul.cc); sums of columns are of rounded
// numbers.
void AddAll(Random& r, const Dims& rows, int64_t k, int64_t n, DType out, double tolerance, const std::string& what,
            OpCases& cases) {
  const auto row_of = [&](int64_t size) {
    Dims dims = rows;
    dims.push_back(size);
    return dims;
  };
  const auto a = [&](int64_t size) { return Narrow(r.Uniform(row_of(size))); };
  const auto w = [&](int64_t size) {
    return Narrow(r.Uniform({n / kPanelColumns, size / 2, kPanelColumns, 2}, -0.25, 0.25));
  };
  const AttrMap attrs = {{"out_dtype", std::string(Name(out))}};
  cases.push_back({"packed_matmul_bias", what, attrs, {a(k), w(k), r.Uniform({n})}, tolerance});
  cases.push_back({"packed_matmul_bias_gelu", what, attrs, {a(k), w(k), r.Uniform({n})}, tolerance});
  if (out == DType::kBFloat16 || what == "small") {
    cases.push_back({"packed_matmul_gelu_bias_grad",
                     what,
                     {},
                     {a(k), w(k), Narrow(r.Uniform(row_of(n)))},
                     std::max(3 * tolerance, 1e-2 * std::sqrt(40.0 + static_cast<double>(Count(rows))))});
  }
  cases.push_back({"sum_packed_matmul", what, attrs, {a(k), w(k), a(k), w(k)}, 2 * tolerance});
  cases.push_back({"sum_packed_matmul", what, attrs, {a(k), w(k), a(2 * k), w(2 * k), a(k), w(k)}, 3 * tolerance});
}

void AddExamples(Random& r, OpCases& cases) {
  for (const Dims& rows : {Dims{3, 2}, Dims{5}, Dims{2, 2, 2}}) {
    AddAll(r, rows, 64, 128, DType::kFloat32, 0.2, "small", cases);
  }
}

void AddEdges(Random& r, OpCases& cases) {
  for (const int64_t rows : {0, 1, 37, 200}) {
    for (const auto& [k, n] : {std::pair<int64_t, int64_t>{32, 64}, {96, 192}, {0, 64}, {64, 0}}) {
      AddAll(r, {rows}, k, n, DType::kBFloat16, 2e-2, "shapes", cases);
      AddAll(r, {rows}, k, n, DType::kFloat32, 2e-5, "unrounded", cases);
    }
  }
  AddAll(r, {600}, 32, 512, DType::kBFloat16, 2e-2, "past the caches", cases);
  AddAll(r, {2100}, 32, 64, DType::kFloat32, 5e-5, "many rows", cases);
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {.types = kTypes, .signatures = kSignatures, .examples = AddExamples, .edges = AddEdges};
  // Each rank would add the whole bias; a gelu is not linear; one product alone is not the sum.
  facts.wrong_signatures = {{"packed_matmul_bias", {2}, {"S(1),S(1),B->P"}},
                            {"packed_matmul_bias_gelu", {2}, {"P,B,P->P,P"}},
                            {"sum_packed_matmul", {2}, {"P,B,B,B->P"}}};
  return facts;
}

}  // namespace oneflow::testing::FusedProductOps
