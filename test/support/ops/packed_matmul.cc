// What tests know of packed weights and of the product that reads them.
#include "oneflow_core/packed.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::PackedMatmulOps {
namespace {

// Where element (i, j) of a [k, n] weight lies in what is packed of it.
int64_t PackedPlace(int64_t i, int64_t j, int64_t k) {
  return ((j / kPanelColumns * (k / 2) + i / 2) * kPanelColumns + j % kPanelColumns) * 2 + i % 2;
}

RefTensor Packed(const RefTensor& w, bool transposed) {
  const int64_t k = w.dims[transposed ? 1 : 0], n = w.dims[transposed ? 0 : 1];
  RefTensor packed = Of(DType::kBFloat16, Zeros({n / kPanelColumns, k / 2, kPanelColumns, 2}));
  for (int64_t i = 0; i < k; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      packed.values[PackedPlace(i, j, k)] = w.values[transposed ? j * k + i : i * n + j];
    }
  }
  return packed;
}

Tensors PackWeight(RefCall& c) { return {Packed(c.in[0], c.attrs.Bool("transpose"))}; }
Tensors PackBothWays(RefCall& c) { return {Packed(c.in[0], false), Packed(c.in[0], true)}; }

Tensors PackedMatmul(RefCall& c) {
  const RefTensor& packed = c.in[1];
  const int64_t k = 2 * packed.dims[1], n = kPanelColumns * packed.dims[0];
  std::vector<double> w(k * n);
  for (int64_t i = 0; i < k; ++i) {
    for (int64_t j = 0; j < n; ++j) w[i * n + j] = packed.values[PackedPlace(i, j, k)];
  }
  Dims dims = c.in[0].dims;
  dims.back() = n;
  RefTensor y = Of(c.in[0].dtype, Zeros(dims));
  if (c.attrs.Has("out_dtype")) ParseDType(c.attrs.String("out_dtype").c_str(), &y.dtype);
  Product(c.in[0].values.data(), false, w.data(), false, y.values.data(), Rows(c.in[0]), n, k);
  return {y};
}

constexpr const char kTypes[] = R"(
pack_weight(f32[96,128]) = bf16[2,48,64,2]
pack_weight(bf16[128,96]) {transpose=true} = bf16[2,48,64,2]
pack_weight(f16[96,128]) ! w is f16[96,128] but must be f32 or bf16
pack_weight(f32[48,128]) ! w is f32[48,128], but panels take a multiple of 32 rows and of 64 columns
pack_weight(f32[64,32]) {transpose=true} = bf16[1,16,64,2]
pack_weight(f32[32,96]) {transpose=true} ! w is f32[32,96] (transposed), but panels take a multiple of 32 rows and of 64
    columns
pack_weight_both_ways(f32[128,192]) = bf16[3,64,64,2] bf16[2,96,64,2]
pack_weight_both_ways(f16[128,192]) ! w is f16[128,192] but must be f32 or bf16
pack_weight_both_ways(bf16[96,128]) ! w is bf16[96,128] (transposed), but panels take a multiple of 32 rows and of 64
    columns
packed_matmul(bf16[5,3,96] bf16[2,48,64,2]) = bf16[5,3,128]
packed_matmul(bf16[3,96] bf16[2,48,64,2]) {out_dtype=f32} = f32[3,128]
packed_matmul(bf16[3,64] bf16[2,48,64,2]) ! inner dimensions differ: a is bf16[3,64], w is bf16[2,48,64,2] of 96 rows
packed_matmul(bf16[3,96] bf16[2,48,32,2]) ! w is bf16[2,48,32,2] but must be bf16[n/64,k/2,64,2]
packed_matmul(f32[3,96] f32[2,48,64,2]) ! w is f32[2,48,64,2] but must be bf16[n/64,k/2,64,2]
)";

constexpr const char kSignatures[] = R"(
pack_weight(f32[128,256]) | - | S(0)->S(1) S(1)->S(0) | - | - | what is packed lies as whole panels
pack_weight(f32[256,32]) {transpose=true} | - | S(0)->S(0) | - | - | half a block of 32 rows is none
pack_weight_both_ways(f32[128,256]) | - | S(0)->S(1),S(0) S(1)->S(0),S(1) | - | - | what is packed lies as whole panels
pack_weight_both_ways(f32[64,256]) | - | S(1)->S(0),S(1) | - | - | half a panel of 64 columns is none
packed_matmul(bf16[8,128], bf16[4,64,64,2]) | - | S(0),B->S(0) S(1),S(1)->P B,S(0)->S(1) P,B->P | - | - | as
    matmul, but for a partial weight, which is never packed
)";

RefTensor Narrow(RefTensor x) { return Of(DType::kBFloat16, std::move(x)); }

void AddExamples(Random& r, OpCases& cases) {
  for (const bool t : {false, true}) {
    cases.push_back({"pack_weight", "small", {{"transpose", t}}, {r.Uniform({128, 128})}, 0});
  }
  cases.push_back({"pack_weight_both_ways", "small", {}, {r.Uniform({128, 128})}, 0});
  // Addends of a are rounded before they are summed: of twelve up to 2 the one that makes up the rest is up to 24,
  // rounded to 1/16; times 64 weights.
  cases.push_back({"packed_matmul",
                   "small",
                   {{"out_dtype", std::string("f32")}},
                   {Narrow(r.Uniform({3, 2, 64})), Narrow(r.Uniform({2, 32, 64, 2}, -0.25, 0.25))},
                   0.2});
}

void AddEdges(Random& r, OpCases& cases) {
  for (const bool t : {false, true}) {
    for (const auto& [k, n] : {std::pair<int64_t, int64_t>{32, 64}, {96, 64}, {32, 192}, {0, 64}, {32, 0}}) {
      const Dims dims = t ? Dims{n, k} : Dims{k, n};
      cases.push_back({"pack_weight", "shapes", {{"transpose", t}}, {r.Uniform(dims)}, 0});
      cases.push_back({"pack_weight", "bf16", {{"transpose", t}}, {Narrow(r.Uniform(dims))}, 0});
    }
    cases.push_back({"pack_weight", "past the caches", {{"transpose", t}}, {r.Uniform({448, 640})}, 0});
  }
  for (const Dims& dims : {Dims{64, 64}, {192, 64}, {64, 320}, {0, 64}, {64, 0}, {448, 640}}) {
    cases.push_back({"pack_weight_both_ways", "shapes", {}, {r.Uniform(dims)}, 0});
    cases.push_back({"pack_weight_both_ways", "bf16", {}, {Narrow(r.Uniform(dims))}, 0});
  }
  for (const int64_t rows : {0, 1, 37, 200}) {
    for (const auto& [k, n] : {std::pair<int64_t, int64_t>{32, 64}, {96, 192}, {0, 64}, {64, 0}}) {
      const std::vector<RefTensor> operands = {Narrow(r.Uniform({rows, k})),
                                               Narrow(r.Uniform({n / kPanelColumns, k / 2, kPanelColumns, 2}))};
      cases.push_back({"packed_matmul", "shapes", {}, operands, 2e-2});
      cases.push_back({"packed_matmul", "unrounded", {{"out_dtype", std::string("f32")}}, operands, 2e-5});
    }
  }
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {.types = kTypes, .signatures = kSignatures, .examples = AddExamples, .edges = AddEdges};
  facts.reference = {
      {"pack_weight", PackWeight}, {"pack_weight_both_ways", PackBothWays}, {"packed_matmul", PackedMatmul}};
  facts.without_gradient = {{"pack_weight", "made after differentiation"},
                            {"pack_weight_both_ways", "made after differentiation"},
                            {"packed_matmul", "made after differentiation"}};
  for (const auto& [op, reference] : facts.reference) facts.of_cpu_alone.push_back(op);
  return facts;
}

}  // namespace oneflow::testing::PackedMatmulOps
