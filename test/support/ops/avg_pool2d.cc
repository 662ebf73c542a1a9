// What tests know of average pooling: the mean of each window; a gradient gives every element of it the same share.
#include <algorithm>
#include <cmath>
#include <functional>

#include "oneflow_core/functional.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::AvgPool2dOps {
namespace {

// body(index of x, index of y, share) for every element of every window that is not padding.
void ForEachShare(const Dims& x, const Dims& y, const AttrMap& attrs,
                  const std::function<void(int64_t, int64_t, double)>& body) {
  const bool adaptive = !attrs.Has("kernel");
  const int64_t kernel = attrs.Int("kernel"), stride = attrs.Int("stride"), padding = attrs.Int("padding");
  struct Window {
    int64_t begin, end;
  };
  const auto window = [&](int64_t i, int64_t n, int64_t m) {
    if (!adaptive) return Window{i * stride - padding, i * stride - padding + kernel};
    const double step = static_cast<double>(n) / static_cast<double>(m);
    return Window{static_cast<int64_t>(std::floor(static_cast<double>(i) * step + 1e-9)),
                  static_cast<int64_t>(std::ceil(static_cast<double>(i + 1) * step - 1e-9))};
  };
  for (int64_t i = 0; i < Count(y); ++i) {
    const Dims at = Unravel(y, i);
    const Window rows = window(at[2], x[2], y[2]), columns = window(at[3], x[3], y[3]);
    const double share = 1.0 / static_cast<double>((rows.end - rows.begin) * (columns.end - columns.begin));
    for (int64_t row = std::max<int64_t>(rows.begin, 0); row < std::min(rows.end, x[2]); ++row) {
      for (int64_t column = std::max<int64_t>(columns.begin, 0); column < std::min(columns.end, x[3]); ++column) {
        body(Ravel(x, {at[0], at[1], row, column}), i, share);
      }
    }
  }
}

Tensors Pool(RefCall& c) {
  const RefTensor& x = c.in[0];
  Dims dims = x.dims;
  if (c.attrs.Has("kernel")) {
    for (int d : {2, 3}) {
      dims[d] = (dims[d] + 2 * c.attrs.Int("padding") - c.attrs.Int("kernel")) / c.attrs.Int("stride") + 1;
    }
  } else {
    dims[2] = c.attrs.Int("height");
    dims[3] = c.attrs.Int("width");
  }
  RefTensor y = Zeros(dims, x.dtype);
  ForEachShare(x.dims, dims, c.attrs,
               [&](int64_t xi, int64_t yi, double share) { y.values[yi] += share * x.values[xi]; });
  return {y};
}

Tensors PoolGrad(RefCall& c) {
  const RefTensor& dy = c.in[0];
  RefTensor dx = Zeros({dy.dims[0], dy.dims[1], c.attrs.Int("height"), c.attrs.Int("width")}, dy.dtype);
  ForEachShare(dx.dims, dy.dims, c.attrs,
               [&](int64_t xi, int64_t yi, double share) { dx.values[xi] += share * dy.values[yi]; });
  return {dx};
}

constexpr const char kTypes[] = R"(
avg_pool2d(f32[2,3,8,9]) {kernel=2 stride=2} = f32[2,3,4,4]
avg_pool2d(bf16[2,3,8,9]) {kernel=3 stride=2 padding=1} = bf16[2,3,4,5]
avg_pool2d(f32[2,3,8,9]) {kernel=9 stride=1} ! attribute 'kernel' is 9 but dimension 2 of x, which is [2,3,8,9], has 8
avg_pool2d(f32[2,3,8,9]) {kernel=2 stride=1 padding=2} ! attribute 'padding' is 2 but must be in [0, 1]
avg_pool2d(f32[2,3,8,9]) {kernel=2 stride=0} ! attribute 'stride' is 0 but must be in [1, 1073741824]
avg_pool2d_grad(f32[2,3,4,4]) {kernel=2 stride=2 height=8 width=9} = f32[2,3,8,9]
avg_pool2d_grad(f32[2,3,4,4]) {kernel=2 stride=2 height=8 width=7} ! dy is f32[2,3,4,4] but pooling of [2,3,8,7] needs
    f32[2,3,4,3]
adaptive_avg_pool2d(f32[2,3,8,9]) {height=3 width=1} = f32[2,3,3,1]
adaptive_avg_pool2d(f32[2,3,8,9]) {height=3} ! attribute 'width' is missing
adaptive_avg_pool2d(f32[2,3,0,9]) {height=3 width=1} ! dimension 2 of [2,3,0,9] must be in [1, 1073741824]
adaptive_avg_pool2d_grad(f32[2,3,3,1]) {height=8 width=9} = f32[2,3,8,9]
adaptive_avg_pool2d_grad(f32[2,3,3,1]) {height=0 width=9} ! attribute 'height' is 0 but must be in [1, 1073741824]
)";

constexpr const char kSignatures[] = R"(
avg_pool2d(f32[8,4,8,8]) {kernel=2, stride=2} | S(0)->S(0) S(1)->S(1) | P->P | - | pool_op.cpp | -
adaptive_avg_pool2d(f32[8,4,8,8]) {height=3, width=3} | S(0)->S(0) S(1)->S(1) | P->P | - | adaptive_pool_op.cpp | -
)";

// A pooling of x, and its gradient.
void AddBoth(Random& r, const char* what, const Dims& x, const AttrMap& attrs, OpCases& cases) {
  const std::string op = attrs.Has("kernel") ? "avg_pool2d" : "adaptive_avg_pool2d";
  Tensors in = {r.Uniform(x)};
  AttrMap sizes = attrs;
  sizes.Set("height", x[2]);
  sizes.Set("width", x[3]);
  const Tensors y = *Reference(op, attrs, in);
  cases.push_back({op, what, attrs, in});
  cases.push_back({op + "_grad", what, sizes, {r.Uniform(y[0].dims)}});
}
AttrMap Windows(int64_t kernel, int64_t stride, int64_t padding = 0) {
  return {{"kernel", kernel}, {"stride", stride}, {"padding", padding}};
}
AttrMap Sizes(int64_t height, int64_t width) { return {{"height", height}, {"width", width}}; }

void AddExamples(Random& r, OpCases& cases) {
  AddBoth(r, "small", {3, 5, 5, 7}, Windows(3, 1), cases);
  AddBoth(r, "small", {3, 5, 5, 7}, Windows(3, 2, 1), cases);
  AddBoth(r, "small", {2, 3, 4, 6}, Windows(2, 2), cases);
  AddBoth(r, "small", {2, 3, 5, 7}, Sizes(3, 2), cases);
}

void AddEdges(Random& r, OpCases& cases) {
  for (const AttrMap& attrs :
       {Windows(2, 3), Windows(5, 1, 4), Windows(1, 1), Sizes(3, 7), Sizes(1, 1), Sizes(11, 20)}) {
    AddBoth(r, "shapes", {2, 3, 9, 7}, attrs, cases);
    AddBoth(r, "blocks", {2, 32, 8, 9}, attrs, cases);
    AddBoth(r, "empty", {0, 3, 9, 7}, attrs, cases);
  }
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {.types = kTypes, .signatures = kSignatures, .examples = AddExamples, .edges = AddEdges};
  for (const char* op : {"avg_pool2d", "adaptive_avg_pool2d"}) {
    facts.reference.emplace_back(op, Pool);
    facts.reference.emplace_back(std::string(op) + "_grad", PoolGrad);
    facts.without_gradient.emplace_back(std::string(op) + "_grad", "a gradient itself");
  }
  facts.dsl = {{[](Operands d) {
                  return AvgPool2d(d.F32({2, 3, 8, 8}), 3, 2, 1);
                },
                "avg_pool2d", "f32[2,3,4,4]"},
               {[](Operands d) {
                  return AdaptiveAvgPool2d(d.F32({2, 3, 8, 8}), 1, 3);
                },
                "adaptive_avg_pool2d", "f32[2,3,1,3]"}};
  return facts;
}

}  // namespace oneflow::testing::AvgPool2dOps
