// What tests know of conv2d and of its gradients: all three are sums over the same taps.
#include "oneflow_core/functional.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::Conv2dOps {
namespace {

// body(index of x, index of k, index of y) for every product that conv2d sums.
template <typename Body>
void ForEachTap(const Dims& x, const Dims& k, const Dims& y, const AttrMap& attrs, const Body& body) {
  const int64_t stride = attrs.Int("stride", 1), padding = attrs.Int("padding"), dilation = attrs.Int("dilation", 1);
  const int64_t outputs_of_group = k[0] / attrs.Int("groups", 1);
  int64_t yi = 0;
  for (int64_t n = 0; n < y[0]; ++n) {
    for (int64_t o = 0; o < y[1]; ++o) {
      const int64_t image = n * x[1] + o / outputs_of_group * k[1];
      for (int64_t i = 0; i < y[2]; ++i) {
        for (int64_t j = 0; j < y[3]; ++j, ++yi) {
          for (int64_t tap = 0; tap < k[1] * k[2] * k[3]; ++tap) {
            const int64_t row = i * stride - padding + tap / k[3] % k[2] * dilation;
            const int64_t column = j * stride - padding + tap % k[3] * dilation;
            if (row < 0 || row >= x[2] || column < 0 || column >= x[3]) continue;
            const int64_t channel = image + tap / k[3] / k[2];
            body((channel * x[2] + row) * x[3] + column, o * k[1] * k[2] * k[3] + tap, yi);
          }
        }
      }
    }
  }
}

Tensors Conv2d(RefCall& c) {
  const RefTensor &x = c.in[0], &k = c.in[1];
  const int64_t stride = c.attrs.Int("stride", 1), padding = c.attrs.Int("padding");
  const auto size = [&](int d) {
    const int64_t kernel = (k.dims[d] - 1) * c.attrs.Int("dilation", 1) + 1;
    return (x.dims[d] + 2 * padding - kernel) / stride + 1;
  };
  RefTensor y = Zeros({x.dims[0], k.dims[0], size(2), size(3)});
  ForEachTap(x.dims, k.dims, y.dims, c.attrs,
             [&](int64_t xi, int64_t ki, int64_t yi) { y.values[yi] += x.values[xi] * k.values[ki]; });
  return {y};
}

Tensors Conv2dDgrad(RefCall& c) {
  const RefTensor &dy = c.in[0], &k = c.in[1];
  RefTensor dx = Zeros({dy.dims[0], k.dims[1] * c.attrs.Int("groups", 1), c.attrs.Int("height"), c.attrs.Int("width")});
  ForEachTap(dx.dims, k.dims, dy.dims, c.attrs,
             [&](int64_t xi, int64_t ki, int64_t yi) { dx.values[xi] += dy.values[yi] * k.values[ki]; });
  return {dx};
}

Tensors Conv2dWgrad(RefCall& c) {
  const RefTensor &x = c.in[0], &dy = c.in[1];
  RefTensor dk = Zeros(
      {dy.dims[1], x.dims[1] / c.attrs.Int("groups", 1), c.attrs.Int("kernel_height"), c.attrs.Int("kernel_width")});
  ForEachTap(x.dims, dk.dims, dy.dims, c.attrs,
             [&](int64_t xi, int64_t ki, int64_t yi) { dk.values[ki] += x.values[xi] * dy.values[yi]; });
  return {dk};
}

constexpr const char kTypes[] = R"(
conv2d(f32[2,3,8,9] f32[4,3,5,3]) {stride=1 padding=0} = f32[2,4,4,7]
conv2d(f32[2,3,8,8] f32[4,3,5,5]) {stride=1 padding=2} = f32[2,4,8,8]
conv2d(f32[2,3,8,9] f32[4,3,3,3]) {stride=2 padding=1} = f32[2,4,4,5]
conv2d(bf16[2,3,8,9] bf16[4,3,5,3]) {out_dtype=f32 stride=1 padding=0} = f32[2,4,4,7]
conv2d(f32[2,3,8,8] f32[4,2,3,3]) {stride=1 padding=0} ! channels differ: x is [2,3,8,8], k is [4,2,3,3] (3 against 2)
conv2d(f32[2,3,2,8] f32[4,3,5,5]) {stride=1 padding=1} ! the kernel does not fit: x is [2,3,2,8] with padding 1, k is
    [4,3,5,5]
conv2d(f32[2,3,8,8] f32[4,3,0,3]) {stride=1 padding=0} ! the kernel does not fit: x is [2,3,8,8] with padding 0, k is
    [4,3,0,3]
conv2d(f32[2,3,8,8] f32[4,3,3,3]) {stride=0 padding=0} ! attribute 'stride' is 0 but must be in [1, 1073741824]
conv2d(f32[2,3,8,8] f32[4,3,3,3]) {stride=1} ! attribute 'padding' is missing
conv2d(f32[2,3,8] f32[4,3,3,3]) {stride=1 padding=0} ! x is f32[2,3,8] but must have 4 dimensions
conv2d(f32[2,6,8,8] f32[4,3,3,3]) {stride=1 padding=0 groups=2} = f32[2,4,6,6]
conv2d(f32[2,6,8,8] f32[6,1,3,3]) {stride=1 padding=2 dilation=2 groups=6} = f32[2,6,8,8]
conv2d(f32[2,6,8,8] f32[4,2,3,3]) {stride=1 padding=0 groups=2} ! channels are not those of 2 groups: x is [2,6,8,8], k
    is [4,2,3,3]
conv2d(f32[2,6,8,8] f32[5,3,3,3]) {stride=1 padding=0 groups=2} ! channels are not those of 2 groups: x is [2,6,8,8], k
    is [5,3,3,3]
conv2d(f32[2,3,8,8] f32[4,3,5,5]) {stride=1 padding=0 dilation=2} ! the kernel does not fit: x is [2,3,8,8] with padding
    0, k is [4,3,5,5] with dilation 2
conv2d(f32[2,3,8,8] f32[4,3,3,3]) {stride=1 padding=0 groups=0} ! attribute 'groups' is 0 but must be in [1, 1073741824]
conv2d_dgrad(f32[2,4,6,6] f32[4,3,3,3]) {stride=1 padding=0 groups=2 height=8 width=8} = f32[2,6,8,8]
conv2d_wgrad(f32[2,6,8,8] f32[2,4,6,6]) {stride=1 padding=0 groups=2 kernel_height=3 kernel_width=3} = f32[4,3,3,3]
conv2d_dgrad(f32[2,4,4,5] f32[4,3,3,3]) {stride=2 padding=1 height=8 width=9} = f32[2,3,8,9]
conv2d_dgrad(bf16[2,4,4,5] bf16[4,3,3,3]) {out_dtype=f32 stride=2 padding=1 height=8 width=9} = f32[2,3,8,9]
conv2d_dgrad(f32[2,4,4,5] f32[4,3,3,3]) {stride=2 padding=1 height=8 width=11} ! dy is f32[2,4,4,5] but a convolution of
    [2,3,8,11] with [4,3,3,3], stride 2 and padding 1 needs f32[2,4,4,6]
conv2d_dgrad(f32[2,5,4,5] f32[4,3,3,3]) {stride=2 padding=1 height=8 width=9} ! dy is f32[2,5,4,5] but a convolution of
    [2,3,8,9] with [4,3,3,3], stride 2 and padding 1 needs f32[2,4,4,5]
conv2d_wgrad(f32[2,3,8,9] f32[2,4,4,5]) {stride=2 padding=1 kernel_height=3 kernel_width=3} = f32[4,3,3,3]
conv2d_wgrad(bf16[2,3,8,9] bf16[2,4,4,5]) {out_dtype=f32 stride=2 padding=1 kernel_height=3 kernel_width=3} =
    f32[4,3,3,3]
conv2d_wgrad(f32[2,3,8,9] f32[2,4,4,5]) {stride=2 padding=1 kernel_height=3 kernel_width=5} ! dy is f32[2,4,4,5] but a
    convolution of [2,3,8,9] with [4,3,3,5], stride 2 and padding 1 needs f32[2,4,4,4]
)";

constexpr const char kSignatures[] = R"(
conv2d(f32[8,4,8,8], f32[16,4,3,3]) {stride=1, padding=1} | S(0),B->S(0) | S(1),S(1)->P B,S(0)->S(1) P,B->P B,P->P | - |
    conv_op.cpp | channels in (P) and channels out
conv2d(f32[8,4,8,8], f32[4,1,3,3]) {stride=1, padding=1, groups=4} | S(0),B->S(0) | S(1),S(0)->S(1) P,B->P B,P->P | - |
    conv_op.cpp | a group per channel: channels are split in all operands
conv2d(f32[8,4,8,8], f32[16,2,3,3]) {stride=1, padding=1, groups=2} | S(0),B->S(0) | P,B->P B,P->P | - | conv_op.cpp |
    groups stay whole
conv2d_dgrad(f32[8,16,8,8], f32[16,4,3,3]) {stride=1, padding=1, height=8, width=8} | S(0),B->S(0) | S(1),S(0)->P
    B,S(1)->S(1) P,B->P B,P->P | - | deconv_op.cpp | there a deconvolution
conv2d_wgrad(f32[8,4,8,8], f32[8,16,8,8]) {stride=1, padding=1, kernel_height=3, kernel_width=3} | S(0),S(0)->P |
    S(1),B->S(1) B,S(1)->S(0) P,B->P B,P->P | - | conv_op.cpp, the gradient of the filter | -
)";

// A convolution of x[n,c,h,w] with k[o,c,i,j], and both of its gradients.
void AddAll(Random& r, const char* what, const Dims& x, const Dims& k, const AttrMap& attrs, OpCases& cases) {
  Tensors in = {r.Uniform(x), r.Uniform(k)};
  const RefTensor dy = r.Uniform(Reference("conv2d", attrs, in)->at(0).dims);
  AttrMap dgrad = attrs, wgrad = attrs;
  dgrad.Set("height", x[2]);
  dgrad.Set("width", x[3]);
  wgrad.Set("kernel_height", k[2]);
  wgrad.Set("kernel_width", k[3]);
  cases.push_back({"conv2d", what, attrs, in, 5e-5});
  cases.push_back({"conv2d_dgrad", what, dgrad, {dy, in[1]}, 5e-5});
  cases.push_back({"conv2d_wgrad", what, wgrad, {in[0], dy}, 2e-4});
}

void AddAll(Random& r, const char* what, const Dims& x, const Dims& k, int64_t stride, int64_t padding,
            OpCases& cases) {
  AddAll(r, what, x, k, {{"stride", stride}, {"padding", padding}}, cases);
}

AttrMap Apart(int64_t groups, int64_t dilation, int64_t stride = 1, int64_t padding = 1) {
  return {{"stride", stride}, {"padding", padding}, {"dilation", dilation}, {"groups", groups}};
}

void AddExamples(Random& r, OpCases& cases) {
  AddAll(r, "dilated", {3, 5, 7, 6}, {7, 5, 3, 2}, Apart(1, 2), cases);
  AddAll(r, "groups", {3, 6, 5, 4}, {4, 3, 3, 2}, Apart(2, 1), cases);
  AddAll(r, "depthwise", {3, 5, 5, 4}, {5, 1, 3, 3}, Apart(5, 1, 2), cases);
  for (const int64_t stride : {1, 2}) AddAll(r, "small", {3, 5, 4, 6}, {7, 5, 3, 3}, stride, 1, cases);
}

// Channels that are multiples of 32, of which bf16 has a cache line for each pixel.
void AddWholeLines(Random& r, OpCases& cases) {
  struct Window {
    int64_t height, width, stride, padding;
  };
  for (const Window& w : {Window{1, 1, 1, 0}, Window{1, 1, 2, 0}, Window{3, 3, 1, 1}, Window{3, 3, 2, 1},
                          Window{2, 3, 1, 2}, Window{3, 2, 3, 2}, Window{2, 2, 3, 0}}) {
    AddAll(r, "lines of channels", {2, 32, 5, 4}, {32, 32, w.height, w.width}, w.stride, w.padding, cases);
  }
  AddAll(r, "several lines of channels", {1, 64, 3, 3}, {96, 64, 1, 2}, 1, 0, cases);
  // More pixels than are multiplied at once.
  cases.push_back({"conv2d_wgrad",
                   "lines of a large image",
                   {{"stride", 1}, {"padding", 0}, {"kernel_height", 1}, {"kernel_width", 2}},
                   {r.Uniform({1, 32, 33, 33}), r.Uniform({1, 32, 33, 32})},
                   2e-4});
}

void AddEdges(Random& r, OpCases& cases) {
  AddAll(r, "padded", {2, 3, 8, 9}, {4, 3, 3, 3}, 1, 1, cases);
  AddAll(r, "one channel", {1, 1, 28, 28}, {16, 1, 5, 5}, 1, 2, cases);
  AddAll(r, "steps of two", {2, 16, 7, 7}, {8, 16, 3, 3}, 2, 0, cases);
  AddAll(r, "not square", {3, 2, 5, 6}, {5, 2, 1, 2}, 1, 0, cases);
  AddAll(r, "empty", {0, 3, 8, 8}, {4, 3, 3, 3}, 1, 1, cases);
  AddAll(r, "many channels", {2, 16, 12, 12}, {32, 16, 5, 5}, 1, 0, cases);
  AddAll(r, "blocks of channels", {2, 32, 9, 7}, {48, 32, 3, 3}, 2, 1, cases);
  AddAll(r, "a block from an image", {2, 3, 9, 7}, {16, 3, 3, 3}, 1, 1, cases);
  AddAll(r, "dilated blocks", {2, 32, 12, 11}, {48, 32, 3, 3}, Apart(1, 3), cases);
  AddAll(r, "groups of blocks", {2, 32, 9, 7}, {48, 16, 3, 3}, Apart(2, 2), cases);
  AddAll(r, "groups of few", {2, 32, 9, 7}, {64, 4, 3, 3}, Apart(8, 1, 2), cases);
  AddAll(r, "depthwise blocks", {2, 48, 9, 7}, {48, 1, 3, 3}, Apart(48, 1), cases);
  AddAll(r, "depthwise, several of each", {2, 6, 9, 7}, {12, 1, 3, 3}, Apart(6, 2, 2), cases);
  AddAll(r, "empty groups", {0, 4, 8, 8}, {4, 2, 3, 3}, Apart(2, 1), cases);
  AddAll(r, "pixel by pixel", {2, 48, 5, 4}, {16, 48, 1, 1}, 1, 0, cases);
  AddWholeLines(r, cases);
}

void AddExtremes(Random& r, OpCases& cases) {
  struct Window {
    int64_t height, width, stride, padding;
  };
  for (const Window& w : {Window{1, 1, 2, 0}, Window{5, 5, 3, 2}, Window{2, 3, 1, 0}, Window{3, 1, 2, 1}}) {
    cases.push_back({"conv2d",
                     "windows",
                     {{"stride", w.stride}, {"padding", w.padding}},
                     {r.Uniform({2, 3, 8, 7}), r.Uniform({4, 3, w.height, w.width})}});
  }
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {
      .types = kTypes, .signatures = kSignatures, .examples = AddExamples, .edges = AddEdges, .extremes = AddExtremes};
  facts.reference = {{"conv2d", Conv2d}, {"conv2d_dgrad", Conv2dDgrad}, {"conv2d_wgrad", Conv2dWgrad}};
  facts.dsl = {{[](Operands d) {
                  return Conv2d(d.F32({2, 3, 8, 8}), d.F32({4, 3, 3, 3}), 1, 1);
                },
                "conv2d", "f32[2,4,8,8]"},
               {[](Operands d) {
                  return Conv2d(d.F32({2, 6, 8, 8}), d.F32({6, 1, 3, 3}), {.padding = 2, .dilation = 2, .groups = 6});
                },
                "conv2d", "f32[2,6,8,8]"},
               {[](Operands d) {
                  return ConvTranspose2d(d.F32({2, 4, 4, 5}), d.F32({4, 3, 3, 3}), {.stride = 2, .padding = 1}, 1);
                },
                "conv2d_dgrad", "f32[2,3,8,10]"}};
  facts.without_gradient = {{"conv2d_wgrad", "a gradient itself"}};
  return facts;
}

}  // namespace oneflow::testing::Conv2dOps
