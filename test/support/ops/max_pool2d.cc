// What tests know of max_pool2d and of its gradient: of equal elements the first is the maximum.
#include <limits>

#include "oneflow_core/functional.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::MaxPool2dOps {
namespace {

Tensors MaxPool2d(RefCall& c) {
  const RefTensor& x = c.in[0];
  const int64_t kernel = c.attrs.Int("kernel"), stride = c.attrs.Int("stride", kernel), width = x.dims[3];
  RefTensor y = Zeros({x.dims[0], x.dims[1], (x.dims[2] - kernel) / stride + 1, (width - kernel) / stride + 1});
  RefTensor index = Zeros(y.dims, DType::kInt32);
  for (int64_t i = 0; i < y.count(); ++i) {
    const Dims at = Unravel(y.dims, i);
    y.values[i] = -std::numeric_limits<double>::infinity();
    for (int64_t row = at[2] * stride; row < at[2] * stride + kernel; ++row) {
      for (int64_t column = at[3] * stride; column < at[3] * stride + kernel; ++column) {
        const double v = x.values[Ravel(x.dims, {at[0], at[1], row, column})];
        if (v > y.values[i]) {
          y.values[i] = v;
          index.values[i] = static_cast<double>(row * width + column);
        }
      }
    }
  }
  return {y, index};
}

Tensors MaxPool2dGrad(RefCall& c) {
  const RefTensor& dy = c.in[0];
  const int64_t height = c.attrs.Int("height"), width = c.attrs.Int("width");
  RefTensor dx = Zeros({dy.dims[0], dy.dims[1], height, width});
  const int64_t outputs = dy.dims[2] * dy.dims[3];
  for (int64_t i = 0; i < dy.count(); ++i) {
    dx.values[i / outputs * height * width + static_cast<int64_t>(c.in[1].values[i])] += dy.values[i];
  }
  return {dx};
}

constexpr const char kTypes[] = R"(
max_pool2d(f32[2,3,8,9]) {kernel=2 stride=2} = f32[2,3,4,4] i32[2,3,4,4]
max_pool2d(f32[2,3,8,9]) {kernel=3 stride=1} = f32[2,3,6,7] i32[2,3,6,7]
max_pool2d(f32[2,3,8,9]) {kernel=9 stride=1} ! attribute 'kernel' is 9 but dimension 2 of x, which is f32[2,3,8,9], has
    8
max_pool2d(f32[2,3,8,9]) {kernel=2 stride=0} ! attribute 'stride' is 0 but must be at least 1
max_pool2d_grad(f32[2,3,4,4] i32[2,3,4,4]) {height=8 width=9} = f32[2,3,8,9]
max_pool2d_grad(f32[2,3,4,4] i32[2,3,4,3]) {height=8 width=9} ! index is i32[2,3,4,3] but dy, which is f32[2,3,4,4],
    needs i32[2,3,4,4]
max_pool2d_grad(f32[2,3,4,4] i32[2,3,4,4]) {height=3 width=9} ! attribute 'height' is 3 but must be at least 4
)";

constexpr const char kSignatures[] = R"(
max_pool2d(f32[8,4,8,8]) {kernel=2, stride=2} | S(0)->S(0),S(0) S(1)->S(1),S(1) | - | - | pool_op.cpp | -
)";

// A pooling of x, and its gradient.
void AddBoth(Random& r, const char* what, const RefTensor& x, int64_t kernel, int64_t stride, OpCases& cases) {
  const AttrMap attrs = {{"kernel", kernel}, {"stride", stride}};
  Tensors in = {x};
  const Tensors out = *Reference("max_pool2d", attrs, in);
  cases.push_back({"max_pool2d", what, attrs, in, 0});
  const AttrMap sizes = {{"height", x.dims[2]}, {"width", x.dims[3]}};
  cases.push_back({"max_pool2d_grad", what, sizes, {r.Uniform(out[0].dims), out[1]}, 1e-6});
}

void AddExamples(Random& r, OpCases& cases) {
  AddBoth(r, "small", r.Uniform({3, 5, 5, 7}), 3, 1, cases);
  AddBoth(r, "small", r.Uniform({3, 5, 5, 7}), 3, 2, cases);
  AddBoth(r, "small", r.Uniform({2, 3, 4, 6}), 2, 2, cases);
}

void AddEdges(Random& r, OpCases& cases) {
  AddBoth(r, "ties", Few(r, {2, 3, 8, 8}), 2, 2, cases);
  AddBoth(r, "ties", Few(r, {1, 2, 7, 9}), 3, 2, cases);
  AddBoth(r, "ties", Few(r, {1, 1, 5, 5}), 3, 1, cases);
  AddBoth(r, "blocks", Few(r, {2, 32, 8, 9}), 3, 2, cases);
  AddBoth(r, "blocks", Few(r, {1, 16, 6, 5}), 2, 1, cases);
  AddBoth(r, "empty", Few(r, {0, 3, 4, 4}), 2, 2, cases);
  AddBoth(r, "empty", Few(r, {2, 0, 4, 4}), 2, 2, cases);
}

void AddExtremes(Random& r, OpCases& cases) {
  using Window = std::pair<int64_t, int64_t>;  // kernel, stride
  for (const int64_t stride : {1, 2}) {
    cases.push_back({"max_pool2d", "ties", {{"kernel", int64_t{3}}, {"stride", stride}}, {Few(r, {3, 5, 5, 7})}});
  }
  for (const auto& [kernel, stride] : {Window{1, 1}, Window{2, 3}, Window{4, 1}}) {
    cases.push_back({"max_pool2d", "windows", {{"kernel", kernel}, {"stride", stride}}, {r.Uniform({2, 3, 8, 7})}});
  }
  cases.push_back({"max_pool2d",
                   "infinities",
                   {{"kernel", int64_t{2}}, {"stride", int64_t{1}}},
                   {With(r.Uniform({1, 2, 5, 7}), {kInfinity, -kInfinity, 1, 2, -kInfinity, kInfinity})}});
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {
      .types = kTypes, .signatures = kSignatures, .examples = AddExamples, .edges = AddEdges, .extremes = AddExtremes};
  facts.reference = {{"max_pool2d", MaxPool2d}, {"max_pool2d_grad", MaxPool2dGrad}};
  facts.dsl = {{[](Operands d) { return MaxPool2d(d.F32({2, 3, 8, 8}), 2, 2); }, "max_pool2d", "f32[2,3,4,4]"}};
  facts.without_gradient = {{"max_pool2d_grad", "a gradient itself"}};
  return facts;
}

}  // namespace oneflow::testing::MaxPool2dOps
