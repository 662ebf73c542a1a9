#include "test/laws/op_cases.h"

#include "absl/strings/str_join.h"
#include "test/kernels/cases.h"
#include "test/kernels/harness.h"

namespace oneflow::testing {
namespace {

using Ints = std::vector<int64_t>;

RefTensor Scalar(double value, DType dtype = DType::kFloat32) {
  RefTensor x = Zeros({}, dtype);
  x.values[0] = value;
  return x;
}

AttrMap Axes(Ints axes, bool keepdims) { return {{"axes", std::move(axes)}, {"keepdims", keepdims}}; }

void AddElementwise(Random& r, std::vector<OpCase>& cases) {
  for (const char* op : {"to", "neg", "exp", "square", "tanh", "sigmoid", "relu", "gelu"}) {
    cases.push_back({op, {}, {r.Uniform({7, 5})}});
  }
  for (const char* op : {"log", "sqrt", "rsqrt"}) cases.push_back({op, {}, {r.Uniform({7, 5}, 0.5, 3)}});
  for (const char* op : {"scale", "add_scalar"}) cases.push_back({op, {{"alpha", -1.5}}, {r.Uniform({7, 5})}});
  for (const char* op : {"relu_grad", "gelu_grad"}) cases.push_back({op, {}, {r.Uniform({7, 5}), r.Uniform({7, 5})}});
  for (const char* op : {"add", "sub", "mul", "div", "maximum", "minimum", "heaviside"}) {
    for (const auto& [a, b] : std::vector<std::pair<Ints, Ints>>{
             {{7, 5}, {7, 5}}, {{7, 5}, {5}}, {{7, 1}, {3, 1, 5}}, {{}, {5}}, {{}, {}}}) {
      cases.push_back({op, {}, {r.Uniform(a), r.Uniform(b, 0.5, 2)}});
    }
  }
  cases.push_back({"add_n", {}, {r.Uniform({7, 5}), r.Uniform({7, 5}), r.Uniform({7, 5})}});
  const auto cast = [&](DType from, DType to, double tolerance) {
    RefTensor x = IsFloating(from) ? r.Uniform({7, 5}) : r.Integers({7, 5}, 100);
    x.dtype = from;
    cases.push_back({"cast", {{"dtype", std::string(Name(to))}}, {x}, tolerance});
  };
  cast(DType::kFloat32, DType::kBFloat16, 2e-2);  // addends are rounded before they are summed
  cast(DType::kBFloat16, DType::kFloat32, 2e-2);
  cast(DType::kFloat32, DType::kInt32, 0);
  cast(DType::kInt32, DType::kInt64, 0);
  cast(DType::kUInt8, DType::kFloat32, 0);
  for (const auto& [dims, axis] : std::vector<std::pair<Ints, int64_t>>{{{7, 5}, -1}, {{5, 7, 3}, 1}}) {
    const int64_t n = axis < 0 ? dims.back() : dims[axis];
    cases.push_back({"bias_add", {{"axis", axis}}, {r.Uniform(dims), r.Uniform({n})}});
    cases.push_back({"bias_grad", {{"axis", axis}}, {r.Uniform(dims)}});
  }
  for (const Ints& dims : {Ints{7, 5}, Ints{3, 7, 9}}) {
    cases.push_back({"dropout", {{"rate", 0.4}, {"seed", int64_t{3}}, {"key", int64_t{8}}}, {r.Uniform(dims)}});
  }
}

void AddPlumbing(Random& r, std::vector<OpCase>& cases) {
  for (const DType dtype : {DType::kFloat32, DType::kInt64}) {
    cases.push_back({"constant", {{"dtype", std::string(Name(dtype))}, {"shape", Ints{7, 5}}, {"value", 3.0}}, {}});
  }
  cases.push_back({"accumulate", {}, {r.Uniform({7, 5})}});
  cases.push_back({"accumulate", {}, {r.Integers({7, 5}, 100)}, 0});
  cases.push_back({"assign", {}, {r.Uniform({7, 5}), r.Uniform({7, 5})}});
  cases.push_back({"assign", {}, {r.Integers({7, 5}, 100), r.Integers({7, 5}, 100)}, 0});
  cases.push_back({"increment", {}, {r.Integers({}, 100, DType::kInt64)}, 0});
}

void AddReductions(Random& r, std::vector<OpCase>& cases) {
  for (const char* op : {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min"}) {
    for (const Ints& axes : {Ints{0}, Ints{1}, Ints{0, 2}, Ints{0, 1, 2}, Ints{}}) {
      for (const bool keepdims : {false, true}) cases.push_back({op, Axes(axes, keepdims), {r.Uniform({7, 5, 3})}});
    }
  }
  cases.push_back({"square_sum", {}, {r.Uniform({7, 5})}});
  for (const Ints& shape : {Ints{5, 3}, Ints{5, 1}, Ints{7, 1, 3}, Ints{}}) {
    cases.push_back({"sum_to", {{"shape", shape}}, {r.Uniform({7, 5, 3})}});
    cases.push_back({"broadcast_to", {{"shape", Ints{7, 5, 3}}}, {r.Uniform(shape)}});
  }
}

void AddShapes(Random& r, std::vector<OpCase>& cases) {
  // Equal leading sizes, sizes that 2, 3, 4 and 6 divide on both sides, sizes of one, merged and parted groups.
  for (const auto& [from, to] : std::vector<std::pair<Ints, Ints>>{{{7, 6}, {7, 2, 3}},
                                                                   {{24, 5}, {12, 2, 5}},
                                                                   {{6, 7}, {42}},
                                                                   {{48}, {12, 4}},
                                                                   {{1, 7, 1, 5}, {7, 5, 1}},
                                                                   {{1, 1}, {}},
                                                                   {{4, 6}, {3, 8}}}) {
    cases.push_back({"reshape", {{"shape", to}}, {r.Uniform(from)}});
    cases.push_back({"reshape", {{"shape", to}}, {r.Integers(from, 100)}, 0});
  }
  cases.push_back({"transpose", {{"perm", Ints{2, 0, 1}}}, {r.Uniform({7, 5, 3})}});
  cases.push_back({"transpose", {{"perm", Ints{0, 2, 1}}}, {r.Integers({7, 5, 3}, 100)}, 0});
  const auto part = [](int64_t axis, int64_t start, int64_t size) {
    return AttrMap{{"axis", axis}, {"start", start}, {"size", size}};
  };
  for (const int64_t axis : {0, 1}) {
    cases.push_back({"slice", part(axis, 1, 3), {r.Uniform({7, 5, 3})}});
    cases.push_back({"slice_grad", part(axis, 1, 9), {r.Uniform({7, 5, 3})}});
  }
  cases.push_back({"slice", part(1, 2, 3), {r.Integers({7, 5}, 100)}, 0});
  cases.push_back({"concat", {{"axis", int64_t{1}}}, {r.Uniform({7, 5}), r.Uniform({7, 1}), r.Uniform({7, 2})}});
  cases.push_back({"concat", {{"axis", int64_t{0}}}, {r.Integers({2, 7}, 100), r.Integers({5, 7}, 100)}, 0});
}

void AddLinear(Random& r, std::vector<OpCase>& cases) {
  for (const bool t : {false, true}) {
    for (const Ints& rows : {Ints{7}, Ints{5, 3}, Ints{}}) {
      Ints x = rows, dy = rows;
      x.push_back(7);
      dy.push_back(5);
      cases.push_back({"matmul", {{"transpose_b", t}}, {r.Uniform(x), r.Uniform(t ? Ints{5, 7} : Ints{7, 5})}});
      cases.push_back({"matmul_wgrad", {{"transpose", t}}, {r.Uniform(x), r.Uniform(dy)}});
    }
    for (const bool ta : {false, true}) {
      cases.push_back({"batch_matmul",
                       {{"transpose_a", ta}, {"transpose_b", t}},
                       {r.Uniform(ta ? Ints{5, 7, 4} : Ints{5, 4, 7}), r.Uniform(t ? Ints{5, 3, 7} : Ints{5, 7, 3})}});
    }
  }
  cases.push_back({"softmax", {}, {r.Uniform({7, 5, 6})}});
  cases.push_back({"softmax_grad", {}, {r.Uniform({7, 5, 6}), r.Uniform({7, 5, 6}, 0, 1)}});
  cases.push_back({"layer_norm", {{"epsilon", 1e-3}}, {r.Uniform({7, 5, 6}), r.Uniform({6}), r.Uniform({6})}});
  cases.push_back(
      {"layer_norm_grad",
       {},
       {r.Uniform({7, 5, 6}), r.Uniform({7, 5, 6}), r.Uniform({6}), r.Uniform({7, 5}), r.Uniform({7, 5}, 0.5, 1)},
       1e-4});
  cases.push_back({"embedding", {}, {r.Uniform({11, 5}), r.Integers({7, 3}, 11)}});
  cases.push_back({"embedding", {}, {r.Uniform({3, 5}), r.Integers({7}, 3)}});  // fewer rows than ranks
  cases.push_back({"embedding_grad", {{"rows", int64_t{11}}}, {r.Uniform({7, 3, 5}), r.Integers({7, 3}, 11)}});
  cases.push_back({"embedding_grad", {{"rows", int64_t{3}}}, {r.Uniform({7, 5}), r.Integers({7}, 3)}});
  cases.push_back({"softmax_cross_entropy", {}, {r.Uniform({5, 3, 7}), r.Integers({5, 3}, 7)}});
  cases.push_back({"softmax_cross_entropy_grad",
                   {},
                   {r.Uniform({5, 3}), r.Uniform({5, 3, 7}), r.Integers({5, 3}, 7), r.Uniform({5, 3}, 1, 3)}});
  cases.push_back({"top1_correct", {}, {r.Uniform({7, 5}), r.Integers({7}, 5)}, 0});
}

void AddSoftmaxParts(Random& r, std::vector<OpCase>& cases) {
  const Ints rows = {5, 3}, dims = {5, 3, 7};
  cases.push_back({"softmax_sums", {}, {r.Uniform(dims), r.Integers(rows, 7), r.Uniform(rows, 1, 2)}});
  cases.push_back({"softmax_sums", {}, {r.Uniform({7, 3}), r.Integers({7}, 3), r.Uniform({7}, 1, 2)}});
  cases.push_back({"softmax_loss", {}, {r.Uniform(rows), r.Uniform(rows, 1, 9), r.Uniform(rows)}});
  cases.push_back({"exp_sum", {}, {r.Uniform(dims), r.Uniform(rows, 1, 2)}});
  cases.push_back({"softmax_apply", {}, {r.Uniform(dims), r.Uniform(rows, 1, 2), r.Uniform(rows, 1, 9)}});
  cases.push_back({"row_dot", {}, {r.Uniform(dims), r.Uniform(dims)}});
  cases.push_back({"softmax_grad_apply", {}, {r.Uniform(dims), r.Uniform(dims, 0, 1), r.Uniform(rows)}});
  for (const Ints& shape : {dims, Ints{7, 3}}) {
    RefTensor x = r.Integers(shape, 3);  // the same value in several parts, and in none
    RefTensor m = r.Integers(Ints(shape.begin(), shape.end() - 1), 4);
    x.dtype = m.dtype = DType::kFloat32;
    cases.push_back({"first_index", {}, {x, m}, 0});
  }
  cases.push_back({"equal", {}, {r.Integers({7, 5}, 2), r.Integers({7, 5}, 2)}, 0});
}

void AddIndices(Random& r, std::vector<OpCase>& cases) {
  for (const int64_t size : {11, 3}) {  // more and fewer rows than ranks
    const AttrMap attrs = {{"axis", int64_t{1}}, {"size", size}};
    cases.push_back({"gather", attrs, {r.Uniform({5, size, 3}), r.Integers({7, 3}, size)}});
    cases.push_back({"scatter_add", attrs, {r.Uniform({5, 7, 3, 3}), r.Integers({7, 3}, size)}});
    cases.push_back({"take_along", {}, {r.Uniform({5, size}), r.Integers({5, 7}, size)}});
    cases.push_back({"put_along", {{"columns", size}}, {r.Uniform({5, 7}), r.Integers({5, 7}, size)}});
  }
  cases.push_back({"gather", {{"axis", int64_t{0}}}, {r.Uniform({7, 5}), r.Integers({}, 7)}});
  cases.push_back(
      {"scatter_add", {{"axis", int64_t{0}}, {"size", int64_t{7}}}, {r.Uniform({7, 5}), r.Integers({7}, 7)}});
  cases.push_back({"top_k", {{"k", int64_t{3}}}, {r.Uniform({5, 3, 7})}});
}

// Heads that two axes may share (4 on [2,2], 12 on [4,3]), and heads that few axes divide.
void AddAttention(Random& r, std::vector<OpCase>& cases) {
  for (const auto& [dims, heads] :
       std::vector<std::pair<Ints, int64_t>>{{{5, 4, 12}, 4}, {{2, 3, 24}, 12}, {{3, 5, 9}, 3}}) {
    for (const bool causal : {false, true}) {
      const AttrMap attrs = {{"heads", heads}, {"causal", causal}};
      std::vector<RefTensor> in = {r.Uniform(dims), r.Uniform(dims), r.Uniform(dims)};
      cases.push_back({"attention", attrs, in});
      const std::vector<RefTensor> out = *Reference("attention", attrs, in);
      cases.push_back({"attention_grad", attrs, {r.Uniform(dims), in[0], in[1], in[2], out[0], out[1]}, 1e-4});
    }
  }
}

void AddConvolutions(Random& r, std::vector<OpCase>& cases) {
  for (const int64_t stride : {1, 2}) {
    const AttrMap attrs = {{"stride", stride}, {"padding", int64_t{1}}};
    std::vector<RefTensor> in = {r.Uniform({3, 5, 4, 6}), r.Uniform({7, 5, 3, 3})};
    const RefTensor dy = r.Uniform(Reference("conv2d", attrs, in)->at(0).dims);
    AttrMap dgrad = attrs, wgrad = attrs;
    dgrad.Set("height", int64_t{4});
    dgrad.Set("width", int64_t{6});
    wgrad.Set("kernel_height", int64_t{3});
    wgrad.Set("kernel_width", int64_t{3});
    cases.push_back({"conv2d", attrs, in, 1e-4});
    cases.push_back({"conv2d_dgrad", dgrad, {dy, in[1]}, 1e-4});
    cases.push_back({"conv2d_wgrad", wgrad, {in[0], dy}, 1e-4});
    std::vector<RefTensor> x = {r.Uniform({3, 5, 5, 7})};
    const AttrMap pool = {{"kernel", int64_t{3}}, {"stride", stride}};
    const std::vector<RefTensor> pooled = *Reference("max_pool2d", pool, x);
    cases.push_back({"max_pool2d", pool, x, 0});
    cases.push_back(
        {"max_pool2d_grad", {{"height", int64_t{5}}, {"width", int64_t{7}}}, {r.Uniform(pooled[0].dims), pooled[1]}});
  }
}

void AddTraining(Random& r, std::vector<OpCase>& cases) {
  cases.push_back({"clip_scale", {{"max_norm", 1.5}}, {Scalar(9)}});
  cases.push_back({"lr_schedule", {{"base", 0.1}, {"kind", std::string("constant")}}, {Scalar(5, DType::kInt64)}});
  cases.push_back({"adamw_update",
                   {{"beta1", 0.9}, {"beta2", 0.95}, {"epsilon", 1e-8}, {"weight_decay", 0.1}},
                   {r.Uniform({7, 5}), r.Uniform({7, 5}), r.Uniform({7, 5}, 0.1, 1), r.Uniform({7, 5}), Scalar(0.01),
                    Scalar(0.5), Scalar(6, DType::kInt64)}});
  cases.push_back({"sgd_update",
                   {{"momentum", 0.9}, {"weight_decay", 0.01}, {"nesterov", true}},
                   {r.Uniform({7, 5}), r.Uniform({7, 5}), r.Uniform({7, 5}), Scalar(0.1), Scalar(0.5)}});
  cases.push_back({"sample_token",
                   {{"temperature", 0.8}, {"seed", int64_t{3}}, {"key", int64_t{8}}},
                   {r.Uniform({1, 6, 9}), Scalar(4, DType::kInt32)},
                   0});
  cases.push_back({"append_token", {}, {r.Integers({1, 5}, 100), Scalar(3, DType::kInt32), r.Integers({}, 100)}, 0});
}

void AddNorms(Random& r, std::vector<OpCase>& cases) {
  cases.push_back({"rms_norm", {{"epsilon", 1e-3}}, {r.Uniform({7, 5, 6}), r.Uniform({6})}});
  cases.push_back({"rms_norm_grad",
                   {},
                   {r.Uniform({7, 5, 6}), r.Uniform({7, 5, 6}), r.Uniform({6}), r.Uniform({7, 5}, 0.5, 1)},
                   1e-4});
  for (const Ints& dims : {Ints{7, 5}, Ints{5, 7, 3}, Ints{3, 5, 2, 3}}) {
    const Ints c = {dims[1]};
    const AttrMap attrs = {{"epsilon", 1e-3}};
    const auto one = [&] { return r.Uniform(c); };
    const auto variance = [&] { return r.Uniform(c, 0.5, 2); };
    cases.push_back({"channel_variance", {}, {r.Uniform(dims), one()}});
    cases.push_back({"batch_norm", attrs, {r.Uniform(dims), one(), one(), one(), variance()}});
    cases.push_back({"batch_norm_sums", attrs, {r.Uniform(dims), r.Uniform(dims), one(), variance()}, 1e-4});
    cases.push_back(
        {"batch_norm_dx", attrs, {r.Uniform(dims), r.Uniform(dims), one(), one(), variance(), one(), one()}, 1e-4});
  }
}

void AddExtremaPadsAndRunningSums(Random& r, std::vector<OpCase>& cases) {
  for (const Ints& axes : {Ints{0}, Ints{1}, Ints{0, 2}, Ints{0, 1, 2}, Ints{}}) {
    for (const bool keepdims : {false, true}) {
      const AttrMap attrs = Axes(axes, keepdims);
      std::vector<RefTensor> in = {r.Integers({7, 5, 3}, 3)};  // ties
      in[0].dtype = DType::kFloat32;
      in.push_back((*Reference("reduce_max", attrs, in))[0]);
      const RefTensor n = (*Reference("extremum_count", attrs, in))[0];
      cases.push_back({"extremum_count", attrs, in, 0});
      cases.push_back({"extremum_grad", attrs, {r.Uniform(n.dims), in[0], in[1], n}});
    }
  }
  for (const double value : {0.0, 2.0}) {
    const AttrMap attrs = {{"before", Ints{0, 2, 0}}, {"after", Ints{0, 1, 3}}, {"value", value}};
    cases.push_back({"pad", attrs, {r.Uniform({7, 5, 3})}});
    cases.push_back({"pad", attrs, {r.Integers({7, 5, 3}, 100)}, 0});
  }
  for (const int64_t axis : {0, 1}) {
    for (const bool flag : {false, true}) {
      cases.push_back({"cumsum", {{"axis", axis}, {"reverse", flag}, {"exclusive", !flag}}, {r.Uniform({7, 5, 3})}});
    }
  }
  cases.push_back({"ema_update", {{"decay", 0.75}}, {r.Uniform({7, 5}), r.Uniform({7, 5})}});
}

}  // namespace

std::vector<OpCase> OpCases(uint64_t seed) {
  Random r(seed);
  std::vector<OpCase> cases;
  AddElementwise(r, cases);
  AddPlumbing(r, cases);
  AddReductions(r, cases);
  AddShapes(r, cases);
  AddLinear(r, cases);
  AddSoftmaxParts(r, cases);
  AddIndices(r, cases);
  AddAttention(r, cases);
  AddConvolutions(r, cases);
  AddTraining(r, cases);
  AddNorms(r, cases);
  AddExtremaPadsAndRunningSums(r, cases);
  for (OpCase& c : cases) {
    for (RefTensor& x : c.inputs) x = Rounded(std::move(x));
  }
  return cases;
}

TensorType TypeOf(const RefTensor& x) { return {x.dtype, Shape(x.dims)}; }

std::vector<TensorType> TypesOf(absl::Span<const RefTensor> tensors) {
  std::vector<TensorType> types;
  for (const RefTensor& x : tensors) types.push_back(TypeOf(x));
  return types;
}

std::string ToString(const OpCase& c) {
  return absl::StrCat(
      c.op, "(",
      absl::StrJoin(c.inputs, " ", [](std::string* out, const RefTensor& x) { out->append(TypeOf(x).ToString()); }),
      ")");
}

}  // namespace oneflow::testing
