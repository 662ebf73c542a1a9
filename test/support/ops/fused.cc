// What tests know of fused ops; their references are those of their parts (test/support/fused_reference.h).
#include <algorithm>

#include "test/support/ops/kit.h"

namespace oneflow::testing::FusedOps {
namespace {

constexpr const char kTypes[] = R"(
matmul_bias(f32[5,2,3] f32[3,4] f32[4]) = f32[5,2,4]
matmul_bias(f32[2,3] f32[4,3] f32[4]) {transpose_b=true axis=1} = f32[2,4]
matmul_bias(bf16[2,3] bf16[3,4] f32[4]) ! a is bf16[2,3] but must be f32
matmul_bias(f32[2,3] f32[4,3] f32[3]) ! z = matmul(x, w): inner dimensions differ: a is f32[2,3], w is f32[4,3]
matmul_bias(f32[2,3] f32[3,4] f32[4]) {transpose_b=true} ! z = matmul(x, w): inner dimensions differ: a is f32[2,3], w
    is f32[3,4] (transposed)
matmul_bias(f32[2,3] f32[3,4] f32[3]) ! y = bias_add(z, b): b is f32[3] but dimension 1 of x, which is f32[2,4], has 4
bias_add_gelu(bf16[2,3] f32[3]) = bf16[2,3] bf16[2,3]
bias_add_gelu(f32[2,3] f32[2]) ! h = bias_add(x, b): b is f32[2] but dimension 1 of x, which is f32[2,3], has 3
bias_add_gelu(f32[2,3] f32[3]) {axis=1} = f32[2,3] f32[2,3]
bias_add_tanh(bf16[2,3] f32[3]) = bf16[2,3]
bias_add_tanh(f32[2,3] f32[2]) ! h = bias_add(x, b): b is f32[2] but dimension 1 of x, which is f32[2,3], has 3
gelu_bias_grad(bf16[2,3] bf16[2,3]) = bf16[2,3] f32[3]
gelu_bias_grad(f32[2,3]) ! it has 1 inputs but must have 2: dy, h
add_embedding_grad(f32[10,4] f32[2,3,4] i32[2,3]) {rows=10} = f32[10,4]
add_embedding_grad(f32[10,4] bf16[4] i32[]) {rows=10} = f32[10,4]
add_embedding_grad(f32[10,4] f32[2,3,4] i32[2]) {rows=10} ! g = embedding_grad(dy, ids): ids is i32[2] but dy, which is
    f32[2,3,4], needs i32[2,3]
add_embedding_grad(f32[9,4] f32[2,4] i32[2]) {rows=10} ! d = add_n(a, g): input 0 is f32[9,4], input 1 is f32[10,4];
    they must be the same
add_embedding_grad(f32[10,4] f32[2,4] i32[2]) ! g = embedding_grad(dy, ids): attribute 'rows' is missing
channel_statistics(f32[2,3,4,4]) = f32[3] f32[3]
channel_statistics(bf16[2,3]) = f32[3] f32[3]
channel_statistics(f32[3]) ! mean = channel_mean(x): x is f32[3] but must have at least 2 dimensions
channel_statistics(f32[2,3,0]) ! mean = channel_mean(x): x is f32[2,3,0] but must have at least one element
batch_norm_relu(f32[2,3,4] f32[3] f32[3] f32[3] f32[3]) {epsilon=1e-5} = f32[2,3,4]
batch_norm_relu(bf16[2,3] f32[3] f32[2] f32[3] f32[3]) {epsilon=1e-5} ! h = batch_norm(x, gamma, beta, mean, var): beta
    is f32[2] but x, which is bf16[2,3], needs f32[3]
batch_norm_relu(f32[2,3] f32[3] f32[3] f32[3] f32[3]) {epsilon=-1.0} ! h = batch_norm(x, gamma, beta, mean, var):
    attribute 'epsilon' is -1 but must be at least 0
batch_norm_add_relu(f32[2,3] f32[3] f32[3] f32[3] f32[3] f32[2,3]) {epsilon=1e-5} = f32[2,3]
batch_norm_add_relu(f32[2,3] f32[3] f32[3] f32[3] f32[3] f32[3]) {epsilon=1e-5} ! h is f32[2,3], r is f32[3]; within a
    fused op they must have the same sizes
batch_norm_relu_sums(bf16[2,3,4] bf16[2,3,4] f32[3] f32[3] f32[3] f32[3]) {epsilon=1e-5} = f32[3] f32[3]
batch_norm_relu_sums(f32[2,3] f32[2,4] f32[4] f32[4] f32[4] f32[4]) {epsilon=1e-5} ! d = relu_grad(dy, y): dy is
    f32[2,3], x is f32[2,4]; they must be the same
batch_norm_relu_dx(f32[2,3] f32[2,3] f32[3] f32[3] f32[3] f32[3] f32[3] f32[3]) {epsilon=1e-5} = f32[2,3]
batch_norm_relu_dx(f32[2,3] f32[2,3] f32[3] f32[3] f32[3] f32[3] f32[3] f32[4]) {epsilon=1e-5} ! dx = batch_norm_dx(d,
    x, gamma, mean, var, dgamma, dbeta): dbeta is f32[4] but x, which is f32[2,3], needs f32[3]
batch_norm_relu_dx(f32[2,3] f32[2,3] f32[3] f32[3] f32[3] f32[3] f32[3] f32[3]) ! y = batch_norm_relu(x, gamma, beta,
    mean, var): h = batch_norm(x, gamma, beta, mean, var): attribute 'epsilon' is missing
add_relu_grad(bf16[2,3] bf16[2,3] bf16[2,3]) = bf16[2,3]
add_relu_grad(f32[2,3] bf16[2,3] bf16[2,3]) = bf16[2,3]
add_relu_grad(i32[2] f32[2] f32[2]) ! i32[2] must be floating
add_relu_grad(f32[2] f32[1] f32[2]) ! d = add_n(w, a): input 0 is f32[1], input 1 is f32[2]; they must be the same
add_relu_grad(f32[2] f32[2] f32[1]) ! dx = relu_grad(d, y): dy is f32[2], x is f32[1]; they must be the same
add_layer_norm(bf16[2,3,4] bf16[2,3,4] f32[4] f32[4]) {epsilon=1e-5} = bf16[2,3,4] bf16[2,3,4] f32[2,3] f32[2,3]
add_layer_norm(f32[2,4] f32[2,4] f32[4] f32[3]) {epsilon=1e-5} ! y, mean, rstd = layer_norm(x, gamma, beta): beta is
    f32[3] but x, which is f32[2,4], needs f32[4]
add_layer_norm(f32[2,4] f32[4] f32[4] f32[4]) {epsilon=1e-5} ! a is f32[2,4], b is f32[4]; within a fused op they must
    have the same sizes
add_rms_norm(f32[2,4] f32[2,4] f32[4]) {epsilon=1e-5} = f32[2,4] f32[2,4] f32[2]
add_rms_norm(f32[2,4] f32[2,4] f32[4]) ! y, rstd = rms_norm(x, gamma): attribute 'epsilon' is missing
add_layer_norm_grad(f32[2,4] f32[2,4] f32[2,4] f32[4] f32[2] f32[2]) = f32[2,4] f32[4] f32[4]
add_layer_norm_grad(f32[2,3] f32[2,4] f32[2,4] f32[4] f32[2] f32[2]) ! d = add_n(r, dx): input 0 is f32[2,3], input 1 is
    f32[2,4]; they must be the same
add_rms_norm_grad(f32[2,4] f32[2,4] f32[2,4] f32[4] f32[2]) = f32[2,4] f32[4]
add_rms_norm_grad(f32[2,4] f32[2,4] f32[2,4] f32[4] f32[4]) ! dx, dgamma = rms_norm_grad(dy, x, gamma, rstd): rstd is
    f32[4] but x, which is f32[2,4], needs f32[2]
)";

constexpr const char kSignatures[] = R"(
matmul_bias(f32[8,4], f32[4,16], f32[16]) | - | S(0),B,B->S(0) S(1),S(0),P->P B,S(1),S(0)->S(1) P,B,P->P B,P,P->P | - |
    - |
    as matmul, but that addends are of the bias too
matmul_bias(f32[8,4], f32[16,4], f32[16]) {transpose_b=true} | - | S(0),B,B->S(0) S(1),S(1),P->P B,S(0),S(0)->S(1)
    P,B,P->P B,P,P->P | - | - | as matmul
bias_add_gelu(f32[8,4,16], f32[16]) | - | S(0),B->S(0),S(0) S(1),B->S(1),S(1) S(2),S(0)->S(2),S(2) | - | - | as gelu
bias_add_tanh(f32[8,4,16], f32[16]) | - | S(0),B->S(0) S(1),B->S(1) S(2),S(0)->S(2) | - | - | as tanh
gelu_bias_grad(f32[8,4,16], f32[8,4,16]) | - | S(0),S(0)->S(0),P S(1),S(1)->S(1),P S(2),S(2)->S(2),S(0) P,B->P,P | - |
    - |
    as gelu_grad
add_embedding_grad(f32[16,8], f32[8,4,8], i32[8,4]) {rows=16} | - | S(0),B,B->S(0) S(1),S(2),B->S(1) P,S(0),S(0)->P
    P,S(1),S(1)->P P,P,B->P | - | - | as embedding_grad; what it is added to counts once
channel_statistics(f32[8,4,16]) | - | S(1)->S(0),S(0) | - | - | a rank with a part of a channel has no variance of all
    of it
batch_norm_relu(f32[8,4,16], f32[4], f32[4], f32[4], f32[4]) {epsilon=1e-5} | - | S(0),B,B,B,B->S(0)
    S(1),S(0),S(0),S(0),S(0)->S(1) S(2),B,B,B,B->S(2) | - | - | as batch_norm
batch_norm_add_relu(f32[8,4,16], f32[4], f32[4], f32[4], f32[4], f32[8,4,16]) {epsilon=1e-5} | - |
    S(0),B,B,B,B,S(0)->S(0) S(1),S(0),S(0),S(0),S(0),S(1)->S(1) S(2),B,B,B,B,S(2)->S(2) | - | - | as batch_norm
batch_norm_relu_sums(f32[8,4,16], f32[8,4,16], f32[4], f32[4], f32[4], f32[4]) {epsilon=1e-5} | - |
    S(0),S(0),B,B,B,B->P,P S(1),S(1),S(0),S(0),S(0),S(0)->S(0),S(0) S(2),S(2),B,B,B,B->P,P P,B,B,B,B,B->P,P | - | - |
    as batch_norm_sums
batch_norm_relu_dx(f32[8,4,16], f32[8,4,16], f32[4], f32[4], f32[4], f32[4], f32[4], f32[4]) {epsilon=1e-5} | - |
    S(0),S(0),B,B,B,B,B,B->S(0) S(1),S(1),S(0),S(0),S(0),S(0),S(0),S(0)->S(1) S(2),S(2),B,B,B,B,B,B->S(2)
    P,B,B,B,B,B,P,P->P | - | - | as batch_norm_dx
add_layer_norm(f32[8,4,16], f32[8,4,16], f32[16], f32[16]) {epsilon=1e-5} | - |
    S(0),S(0),B,B->S(0),S(0),S(0),S(0) S(1),S(1),B,B->S(1),S(1),S(1),S(1) | - | - | as layer_norm
add_rms_norm(f32[8,4,16], f32[8,4,16], f32[16]) {epsilon=1e-5} | - |
    S(0),S(0),B->S(0),S(0),S(0) S(1),S(1),B->S(1),S(1),S(1) | - | - | as rms_norm
add_layer_norm_grad(f32[8,4,16], f32[8,4,16], f32[8,4,16], f32[16], f32[8,4], f32[8,4]) | - |
    S(0),S(0),S(0),B,S(0),S(0)->S(0),P,P S(1),S(1),S(1),B,S(1),S(1)->S(1),P,P P,P,B,B,B,B->P,P,P | - | - | as
    layer_norm_grad
add_rms_norm_grad(f32[8,4,16], f32[8,4,16], f32[8,4,16], f32[16], f32[8,4]) | - |
    S(0),S(0),S(0),B,S(0)->S(0),P S(1),S(1),S(1),B,S(1)->S(1),P P,P,B,B,B->P,P | - | - | as rms_norm_grad
add_relu_grad(f32[8,4], f32[8,4], f32[8,4]) | - | S(0),S(0),S(0)->S(0) S(1),S(1),S(1)->S(1) P,P,B->P | - | - | as
    relu_grad
)";

// Operands of all fused ops on an x of these sizes.
void AddOn(Random& r, const Dims& dims, const std::string& what, double tolerance, OpCases& cases) {
  const AttrMap attrs = {{"epsilon", 1e-3}};
  const Dims c = {dims[1]};
  const RefTensor x = r.Uniform(dims, 3, 9), dy = r.Uniform(dims), gamma = r.Uniform(c), beta = r.Uniform(c),
                  mean = r.Uniform(c, 5, 7), var = r.Uniform(c, 0.5, 2);
  if (x.count() > 0) cases.push_back({"channel_statistics", what, {}, {x}, 5e-6});
  cases.push_back(InPlace({"batch_norm_relu", what, attrs, {x, gamma, beta, mean, var}, 5e-6}, 0));
  cases.push_back(InPlace({"batch_norm_add_relu", what, attrs, {x, gamma, beta, mean, var, r.Uniform(dims)}, 5e-6}, 5));
  cases.push_back(InPlace({"add_relu_grad", what, {}, {dy, r.Uniform(dims), x}, 2e-6}, 1));
  cases.push_back(
      {"add_relu_grad", "addends of other types", {}, {dy, Of(DType::kBFloat16, dy), Of(DType::kFloat16, x)}, 1e-3});
  cases.push_back({"batch_norm_relu_sums", what, attrs, {dy, x, gamma, beta, mean, var}, tolerance});
  if (x.count() == 0) return;
  cases.push_back(InPlace(
      {"batch_norm_relu_dx", what, attrs, {dy, x, gamma, beta, mean, var, r.Uniform(c), r.Uniform(c)}, 1e-5}, 0));
}

// Of the norms over the last dimension.
void AddRows(Random& r, const Dims& dims, const std::string& what, OpCases& cases) {
  const AttrMap attrs = {{"epsilon", 1e-3}};
  const Dims c = {dims.back()}, rows(dims.begin(), dims.end() - 1);
  const auto x = [&] { return r.Uniform(dims); };
  const RefTensor gamma = r.Uniform(c), rstd = r.Uniform(rows, 0.5, 2);
  cases.push_back(InPlace({"add_layer_norm", what, attrs, {x(), x(), gamma, r.Uniform(c)}, 1e-5}, 0));
  cases.push_back(InPlace({"add_rms_norm", what, attrs, {x(), x(), gamma}, 1e-5}, 1));
  cases.push_back(InPlace({"add_layer_norm_grad", what, {}, {x(), x(), x(), gamma, r.Uniform(rows), rstd}, 2e-5}, 0));
  cases.push_back(InPlace({"add_rms_norm_grad", what, {}, {x(), x(), x(), gamma, rstd}, 2e-5}, 0));
}

// Of a bias and what is behind it.
void AddBiased(Random& r, const Dims& dims, const std::string& what, OpCases& cases) {
  cases.push_back(InPlace({"bias_add_gelu", what, {}, {r.Uniform(dims), r.Uniform({dims.back()})}, 2e-6}, 0));
  cases.push_back(InPlace({"bias_add_tanh", what, {}, {r.Uniform(dims), r.Uniform({dims.back()})}, 2e-6}, 0));
  cases.push_back(InPlace({"gelu_bias_grad", what, {}, {r.Uniform(dims), r.Uniform(dims)}, 2e-5}, 0));
}

// Of products by a matrix of k rows and n columns, with a bias.
void AddProducts(Random& r, const Dims& rows, int64_t k, int64_t n, const std::string& what, OpCases& cases) {
  Dims a = rows;
  a.push_back(k);
  cases.push_back({"matmul_bias", what, {}, {r.Uniform(a), r.Uniform({k, n}), r.Uniform({n})}, 2e-5});
  cases.push_back({"matmul_bias",
                   what + ", transposed",
                   {{"transpose_b", true}},
                   {r.Uniform(a), r.Uniform({n, k}), r.Uniform({n})},
                   2e-5});
}

// Of `ids` rows of a table of rows of h numbers.
void AddIndexed(Random& r, int64_t rows, const Dims& ids, int64_t h, OpCases& cases) {
  Dims dy = ids;
  dy.push_back(h);
  const AttrMap attrs = {{"rows", rows}};
  cases.push_back(InPlace({"add_embedding_grad",
                           "indices",
                           attrs,
                           {r.Uniform({rows, h}), r.Uniform(dy), r.Integers(ids, std::max<int64_t>(1, rows))},
                           5e-6},
                          0));
}

void AddExamples(Random& r, OpCases& cases) {
  for (const int64_t rows : {3, 7, 11}) AddIndexed(r, rows, {7, 3}, 5, cases);
  for (const Dims& dims : {Dims{7, 5}, Dims{5, 3, 7}, Dims{3, 5, 2, 6}}) AddRows(r, dims, "small", cases);
  for (const Dims& dims : {Dims{7, 5}, Dims{5, 7, 3}, Dims{3, 5, 2, 3}}) AddOn(r, dims, "small", 1e-4, cases);
  for (const Dims& dims : {Dims{7, 5}, Dims{5, 3, 7}, Dims{2, 7, 3, 6}}) AddBiased(r, dims, "small", cases);
  for (const Dims& rows : {Dims{7}, Dims{5, 3}, Dims{}}) AddProducts(r, rows, 5, 7, "small", cases);
}

void AddEdges(Random& r, OpCases& cases) {
  for (const Dims& ids : {Dims{}, Dims{0}, Dims{900}}) AddIndexed(r, 10, ids, 37, cases);
  AddIndexed(r, 4000, {50}, 64, cases);
  AddIndexed(r, 0, {0}, 64, cases);
  for (const Dims& dims : {Dims{33}, Dims{1000, 37}, Dims{4, 1}, Dims{0, 7}, Dims{130, 3, 64}}) {
    AddRows(r, dims, "sides", cases);
  }
  for (const Dims& dims :
       {Dims{5, 37}, Dims{7, 1}, Dims{200, 20}, Dims{1000, 33}, Dims{3, 5, 6}, Dims{2, 4, 3, 7}, Dims{3, 2, 40, 41},
        Dims{130, 3, 9}, Dims{2, 3, 1, 2, 5}, Dims{0, 3, 4}, Dims{0, 3}, Dims{3, 0, 4}, Dims{3, 32, 5, 7},
        Dims{2, 16, 90, 1}, Dims{2, 16, 1, 1}, Dims{0, 16, 2, 2}}) {
    AddOn(r, dims, "sides", 5e-5, cases);
  }
  // Far from 0, where squares of elements would cancel; and an element far from the others.
  for (const Dims& dims : {Dims{300, 20}, Dims{2, 3, 40, 41}, Dims{2, 16, 20, 9}}) {
    cases.push_back({"channel_statistics", "far from 0", {}, {r.Uniform(dims, 999, 1001)}, 2e-5});
    RefTensor x = r.Uniform(dims);
    x.values[0] = -1e4;
    cases.push_back({"channel_statistics", "one far from the others", {}, {x}, 5e-6});
  }
  for (const Dims& dims : {Dims{33}, Dims{1000, 37}, Dims{4, 1}, Dims{0, 7}, Dims{3, 0}, Dims{130, 3, 64}}) {
    AddBiased(r, dims, "sides", cases);
  }
  AddProducts(r, {1037}, 32, 48, "in panels", cases);
  AddProducts(r, {0}, 5, 7, "no rows", cases);
  AddProducts(r, {3}, 0, 7, "no inner dimension", cases);
  AddProducts(r, {3}, 5, 0, "no columns", cases);
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {.types = kTypes, .signatures = kSignatures, .examples = AddExamples, .edges = AddEdges};
  // The variance is not linear, a ReLU is not either, and the sums enter twice.
  facts.wrong_signatures = {{"add_embedding_grad", {2}, {"B,S(0),S(0)->P"}},
                            {"matmul_bias", {2}, {"S(1),S(0),B->P", "P,B,B->P"}},
                            {"channel_statistics", {2}, {"S(0)->P,P"}},
                            {"batch_norm_relu", {2}, {"P,B,B,B,B->P"}},
                            {"batch_norm_relu_dx", {2}, {"P,B,B,B,B,B,B,B->P"}}};
  return facts;
}

}  // namespace oneflow::testing::FusedOps
