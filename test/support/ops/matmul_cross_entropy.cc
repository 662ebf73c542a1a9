// What tests know of a head and its loss in one.
#include <algorithm>

#include "oneflow_core/packed.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::MatmulCrossEntropyOps {
namespace {

constexpr const char kTypes[] = R"(
matmul_cross_entropy(f32[5,2,3] f32[3,7] i32[5,2]) = f32[5,2]
matmul_cross_entropy(bf16[2,3] bf16[7,3] i32[2]) {transpose_b=true} = f32[2]
matmul_cross_entropy(f32[2,3] f32[7,3] i32[2]) ! z = matmul(x, w): inner dimensions differ: a is f32[2,3], w is f32[7,3]
matmul_cross_entropy(f32[2,3] f32[3,7] i32[2]) {transpose_b=true} ! z = matmul(x, w): inner dimensions differ: a is
    f32[2,3], w is f32[3,7] (transposed)
matmul_cross_entropy(f32[2,3] bf16[3,7] i32[2]) ! z = matmul(x, w): dtypes differ: a is f32[2,3], w is bf16[3,7]
matmul_cross_entropy(f32[2,3] f32[3,7] i32[3]) ! loss, lse = softmax_cross_entropy(z, labels): labels is i32[3] but
    logits, which is f32[2,7], needs i32[2]
matmul_cross_entropy_grad(f32[2,3] f32[3,7] i32[2] f32[2]) {dx_transpose_b=true} = f32[2] f32[2,3] f32[3,7]
matmul_cross_entropy_grad(bf16[2,3] bf16[7,3] i32[2] f32[2]) {transpose_b=true dw_transpose=true out_dtype=f32} = f32[2]
    f32[2,3] f32[7,3]
matmul_cross_entropy_grad(f16[2,3] f16[3,7] i32[2] f32[2]) {dx_transpose_b=true} = f32[2] f16[2,3] f32[3,7]
matmul_cross_entropy_grad(f32[2,3] f32[3,3] i32[2] f32[2]) ! attribute 'transpose_b' is false, so that 'dx_transpose_b'
    must be true and 'dw_transpose' false, but they are false and false
matmul_cross_entropy_grad(f32[2,3] f32[3,7] i32[2] f32[2]) {dx_transpose_b=true dw_transpose=true} ! attribute
    'transpose_b' is false, so that 'dx_transpose_b' must be true and 'dw_transpose' false, but they are true and true
matmul_cross_entropy_grad(f32[2,3] f32[3,7] i32[2] f32[3]) {dx_transpose_b=true} ! dz =
    softmax_cross_entropy_grad(dloss, z, labels, lse): dloss is f32[3] but logits, which is f32[2,7], needs f32[2]
packed_matmul_cross_entropy(bf16[2,32] bf16[2,16,64,2] i32[2]) = f32[2]
packed_matmul_cross_entropy(bf16[2,64] bf16[2,16,64,2] i32[2]) ! z = packed_matmul(x, w): inner dimensions differ: a is
    bf16[2,64], w is bf16[2,16,64,2] of 32 rows
packed_matmul_cross_entropy(f32[2,32] f32[2,16,64,2] i32[2]) ! z = packed_matmul(x, w): w is f32[2,16,64,2] but must be
    bf16[n/64,k/2,64,2]
packed_matmul_cross_entropy_grad(bf16[2,64] bf16[2,32,64,2] bf16[1,64,64,2] i32[2] f32[2]) = f32[2] bf16[2,64]
    f32[64,128]
packed_matmul_cross_entropy_grad(bf16[2,64] bf16[2,32,64,2] bf16[1,64,64,2] i32[2] f32[2]) {dw_transpose=true
    out_dtype=f32} = f32[2] f32[2,64] f32[128,64]
packed_matmul_cross_entropy_grad(bf16[2,64] bf16[2,32,64,2] bf16[2,32,64,2] i32[2] f32[2]) ! dx = packed_matmul(dz, wt):
    inner dimensions differ: a is bf16[2,128], w is bf16[2,32,64,2] of 64 rows
)";

constexpr const char kSignatures[] = R"(
matmul_cross_entropy(f32[8,16], f32[16,32], i32[8]) | - | S(0),B,S(0)->S(0) | - | - | rows alone; split classes stay
    apart, as parts of a softmax
matmul_cross_entropy_grad(f32[8,16], f32[16,32], i32[8], f32[8]) {dx_transpose_b=true} | - |
    S(0),B,S(0),S(0)->S(0),S(0),P B,B,B,P->B,P,P | - | - | as its parts for split rows
packed_matmul_cross_entropy(bf16[8,64], bf16[4,32,64,2], i32[8]) | - | S(0),B,S(0)->S(0) | - | - | as
    matmul_cross_entropy
packed_matmul_cross_entropy_grad(bf16[8,64], bf16[4,32,64,2], bf16[1,128,64,2], i32[8], f32[8]) | - |
    S(0),B,B,S(0),S(0)->S(0),S(0),P | - | - | as matmul_cross_entropy_grad
)";

// Gradients of a mean over rows, some of which do not count.
RefTensor OfLosses(Random& r, const Dims& rows) {
  RefTensor dloss = r.Uniform(rows, 0, 2.0 / static_cast<double>(std::max<int64_t>(1, Count(rows))));
  for (int64_t i = 0; i < dloss.count(); i += 3) dloss.values[i] = 0;
  return dloss;
}

// On `rows` of x of k numbers each.
void AddPlain(Random& r, const Dims& rows, int64_t k, int64_t n, const std::string& what, OpCases& cases) {
  Dims dims = rows;
  dims.push_back(k);
  const RefTensor x = r.Uniform(dims, -1, 1), labels = r.Integers(rows, std::max<int64_t>(1, n));
  for (const bool t : {false, true}) {
    const RefTensor w = r.Uniform(t ? Dims{n, k} : Dims{k, n}, -1, 1);
    cases.push_back({"matmul_cross_entropy", what, {{"transpose_b", t}}, {x, w, labels}, 1e-5});
    cases.push_back({"matmul_cross_entropy_grad",
                     what,
                     {{"transpose_b", t}, {"dx_transpose_b", !t}, {"dw_transpose", t}},
                     {x, w, labels, OfLosses(r, rows)},
                     1e-5});
  }
}

RefTensor Narrow(RefTensor x) { return Of(DType::kBFloat16, std::move(x)); }

// Weights in panels, of numbers that say which of both a product has read.
void AddPacked(Random& r, const Dims& rows, int64_t k, int64_t n, const std::string& what, OpCases& cases) {
  Dims dims = rows;
  dims.push_back(k);
  const RefTensor x = Narrow(r.Uniform(dims, -1, 1)), labels = r.Integers(rows, std::max<int64_t>(1, n));
  const RefTensor w = Narrow(r.Uniform({n / kPanelColumns, k / 2, kPanelColumns, 2}, -1, 1)),
                  wt = Narrow(r.Uniform({k / kPanelColumns, n / 2, kPanelColumns, 2}, -1, 1));
  cases.push_back({"packed_matmul_cross_entropy", what, {}, {x, w, labels}, 1e-5});
  for (const bool t : {false, true}) {
    const AttrMap attrs = {{"dw_transpose", t}, {"out_dtype", std::string("f32")}};
    cases.push_back({"packed_matmul_cross_entropy_grad", what, attrs, {x, w, wt, labels, OfLosses(r, rows)}, 2e-3});
  }
}

void AddExamples(Random& r, OpCases& cases) {
  for (const Dims& rows : {Dims{7}, Dims{5, 3}}) AddPlain(r, rows, 6, 9, "small", cases);
  for (const Dims& rows : {Dims{7}, Dims{5, 3}, Dims{2, 2, 3}}) AddPacked(r, rows, 64, 128, "small", cases);
}

void AddEdges(Random& r, OpCases& cases) {
  const struct {
    Dims rows;
    int64_t k, n;
    const char* what;
  } kCases[] = {{{}, 5, 7, "one row"},
                {{0}, 5, 7, "no rows"},
                {{3}, 0, 7, "no inner dimension"},
                {{1}, 1, 1, "one class"},
                {{33}, 17, 100, "odd sizes"},
                {{0}, 5, 0, "neither rows nor classes"},
                {{300}, 4, 5000, "two blocks"},
                {{2, 401}, 3, 4099, "uneven blocks"}};
  for (const auto& c : kCases) AddPlain(r, c.rows, c.k, c.n, c.what, cases);
  for (const int64_t rows : {0, 1, 37}) AddPacked(r, {rows}, 64, 192, "rows", cases);
  AddPacked(r, {300}, 64, 4160, "two blocks", cases);
  AddPacked(r, {3}, 0, 64, "no inner dimension", cases);
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {.types = kTypes, .signatures = kSignatures, .examples = AddExamples, .edges = AddEdges};
  // A loss is not linear in x, nor in dloss, of which it knows nothing.
  facts.wrong_signatures = {{"matmul_cross_entropy", {2}, {"P,B,B->P"}},
                            {"matmul_cross_entropy_grad", {2}, {"B,B,B,P->P,P,P"}}};
  return facts;
}

}  // namespace oneflow::testing::MatmulCrossEntropyOps
