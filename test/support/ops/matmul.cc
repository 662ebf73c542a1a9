// What tests know of matmul and of the gradient of its weight.
#include <tuple>

#include "oneflow_core/functional.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::MatmulOps {
namespace {

Tensors Matmul(RefCall& c) {
  const bool tb = c.attrs.Bool("transpose_b");
  Dims dims = c.in[0].dims;
  dims.back() = c.in[1].dims[tb ? 0 : 1];
  RefTensor y = Zeros(dims);
  Product(c.in[0].values.data(), false, c.in[1].values.data(), tb, y.values.data(), Rows(c.in[0]), dims.back(),
          Columns(c.in[0]));
  return {y};
}

Tensors MatmulWgrad(RefCall& c) {
  const RefTensor& x = c.in[c.attrs.Bool("transpose") ? 1 : 0];
  const RefTensor& dy = c.in[c.attrs.Bool("transpose") ? 0 : 1];
  RefTensor dw = Zeros({Columns(x), Columns(dy)});
  Product(x.values.data(), true, dy.values.data(), false, dw.values.data(), Columns(x), Columns(dy), Rows(x));
  return {dw};
}

constexpr const char kTypes[] = R"(
matmul(f32[2,3] f32[3,4]) = f32[2,4]
matmul(f32[5,2,3] f32[3,4]) = f32[5,2,4]
matmul(f32[3] f32[3,4]) = f32[4]
matmul(f32[2,3] f32[4,3]) {transpose_b=true} = f32[2,4]
matmul(bf16[2,3] bf16[3,4]) = bf16[2,4]
matmul(bf16[2,3] bf16[3,4]) {out_dtype=f32} = f32[2,4]
matmul(f32[2,3] f32[3,4]) {out_dtype=f16} ! attribute 'out_dtype' is 'f16' but must be f32, or as the operands, which
    are
    f32
matmul(f32[2,3] f32[3,4]) {out_dtype=i32} ! attribute 'out_dtype' is 'i32' but must be floating
matmul(f32[2,3] f32[4,3]) ! inner dimensions differ: a is f32[2,3], w is f32[4,3]
matmul(f32[2,3] f32[3,4]) {transpose_b=true} ! inner dimensions differ: a is f32[2,3], w is f32[3,4] (transposed)
matmul(f32[2,3] bf16[3,4]) ! dtypes differ: a is f32[2,3], w is bf16[3,4]
matmul(f32[2,3] f32[2,3,4]) ! w is f32[2,3,4] but must have 2 dimensions
matmul(f32[] f32[3,4]) ! a is f32[] but must have at least 1 dimensions
matmul(f32[2,3] f32[3,4]) {transpose_b=1} ! attribute 'transpose_b' is an integer but must be a bool
matmul(f32[1073741824,1] f32[1,1073741824]) ! the result f32[1073741824,1073741824] has more than 2^58 elements
matmul_wgrad(f32[5,2,3] f32[5,2,4]) = f32[3,4]
matmul_wgrad(f32[2,3] f32[2,4]) {transpose=true} = f32[4,3]
matmul_wgrad(bf16[2,3] bf16[2,4]) {out_dtype=f32} = f32[3,4]
matmul_wgrad(f32[2,3] f32[3,4]) ! leading dimensions differ: x is f32[2,3], dy is f32[3,4]
)";

constexpr const char kSignatures[] = R"(
matmul(f32[8,4], f32[4,16]) | S(0),B->S(0) S(1),S(0)->P B,S(1)->S(1) P,B->P B,P->P | - | - | the paper's table 1 | the
    six of the paper's table 1, all-B among them
matmul(f32[8,4], f32[16,4]) {transpose_b=true} | S(0),B->S(0) S(1),S(1)->P B,S(0)->S(1) P,B->P B,P->P | - | - |
    matmul_op.cpp | -
matmul(f32[4,8,4], f32[4,16]) | S(0),B->S(0) S(1),B->S(1) S(2),S(0)->P B,S(1)->S(2) P,B->P B,P->P | - | - |
    matmul_op.cpp, broadcast_matmul | there an op of its own, broadcast_matmul
matmul_wgrad(f32[4,8,4], f32[4,8,16]) | S(0),S(0)->P S(1),S(1)->P S(2),B->S(0) B,S(2)->S(1) | P,B->P B,P->P | - |
    matmul_op.cpp, broadcast_matmul_grad_b | there an op of its own; here the same letters, ...k,...n->kn
)";

void AddExamples(Random& r, OpCases& cases) {
  for (const bool t : {false, true}) {
    for (const Dims& rows : {Dims{7}, Dims{5, 3}, Dims{}}) {
      Dims x = rows, dy = rows;
      x.push_back(7);
      dy.push_back(5);
      cases.push_back(
          {"matmul", "small", {{"transpose_b", t}}, {r.Uniform(x), r.Uniform(t ? Dims{5, 7} : Dims{7, 5})}});
      cases.push_back({"matmul_wgrad", "small", {{"transpose", t}}, {r.Uniform(x), r.Uniform(dy)}});
    }
  }
}

void AddEdges(Random& r, OpCases& cases) {
  using Sizes = std::tuple<Dims, int64_t, int64_t>;  // rows, k, n
  for (const bool transpose : {false, true}) {
    for (const auto& [rows, k, n] :
         {Sizes{{1}, 1, 1}, Sizes{{3, 5}, 7, 11}, Sizes{{33}, 128, 65}, Sizes{{0}, 4, 5}, Sizes{{4}, 0, 5},
          Sizes{{4}, 5, 0}, Sizes{{}, 6, 7}, Sizes{{300}, 64, 96}, Sizes{{5, 121}, 64, 96}}) {
      Dims x = rows, dy = rows;
      x.push_back(k);
      dy.push_back(n);
      cases.push_back({"matmul",
                       "shapes",
                       {{"transpose_b", transpose}},
                       {r.Uniform(x), r.Uniform(transpose ? Dims{n, k} : Dims{k, n})},
                       2e-5});
      cases.push_back({"matmul_wgrad", "shapes", {{"transpose", transpose}}, {r.Uniform(x), r.Uniform(dy)}, 5e-5});
    }
  }
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {.types = kTypes, .signatures = kSignatures, .examples = AddExamples, .edges = AddEdges};
  facts.reference = {{"matmul", Matmul}, {"matmul_wgrad", MatmulWgrad}};
  facts.dsl = {{[](Operands d) {
                  return MatMul(d.F32({2, 3}), d.F32({3, 4}));
                },
                "matmul", "f32[2,4]"},
               {[](Operands d) {
                  return MatMul(d.F32({2, 3}), d.F32({4, 3}), true);
                },
                "matmul", "f32[2,4]"}};
  facts.without_gradient = {{"matmul_wgrad", "a gradient itself"}};
  return facts;
}

}  // namespace oneflow::testing::MatmulOps
