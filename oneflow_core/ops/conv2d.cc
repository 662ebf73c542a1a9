// conv2d: y[n,o,p,q] = sum over c, i, j of x[n,c,p*s+i*d-padding,q*s+j*d-padding] * k[o,c,i,j] with stride s and
// dilation d; x is 0 outside. With groups, x and y consist of as many parts of their channels, and part i of y is made
// of part i of x. conv2d_dgrad and conv2d_wgrad are its transposes with respect to x and k; sizes that cannot be seen
// from their operands (x's under a stride, k's) are attributes. conv2d_dgrad is also a transposed convolution, so it
// has a gradient itself.
//
// With a group per channel (depthwise) a split of the channels is a split of all three operands. Other groups stay
// whole.
#include <algorithm>

#include "oneflow_core/grad_context.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"

namespace oneflow::ops {
namespace {

struct Window {
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t dilation = 1;
  int64_t groups = 1;  // 0 of an empty shard
};

// Keeps sizes plus twice the padding far from overflowing.
constexpr int64_t kMaxWindow = int64_t{1} << 30;

absl::StatusOr<Window> WindowAttrs(const InferContext& c) {
  const AttrMap& attrs = c.attrs;
  Window window;
  OF_ASSIGN_OR_RETURN(window.stride, IntAttr(attrs, "stride", 1, kMaxWindow));
  OF_ASSIGN_OR_RETURN(window.padding, IntAttr(attrs, "padding", 0, kMaxWindow));
  OF_ASSIGN_OR_RETURN(window.dilation, IntAttrOr(attrs, "dilation", 1, 1, kMaxWindow));
  OF_ASSIGN_OR_RETURN(window.groups, IntAttrOr(attrs, "groups", 1, c.of_shards ? 0 : 1, kMaxWindow));
  return window;
}

// The output of a convolution of `x` [n,c,h,w] with `k` [o,c,i,j].
absl::StatusOr<Shape> Convolved(const Shape& x, const Shape& k, const Window& window) {
  const bool empty = window.groups == 0 && x[1] == 0 && k[0] == 0;  // a shard without channels
  if (window.groups != 1 && !empty &&
      (k[1] > x[1] || x[1] != k[1] * window.groups || k[0] % std::max<int64_t>(window.groups, 1))) {
    return absl::InvalidArgumentError(absl::StrCat("channels are not those of ", window.groups, " groups: x is ",
                                                   x.ToString(), ", k is ", k.ToString()));
  }
  if (window.groups == 1 && x[1] != k[1]) {
    return absl::InvalidArgumentError(absl::StrCat("channels differ: x is ", x.ToString(), ", k is ", k.ToString(),
                                                   " (", x[1], " against ", k[1], ")"));
  }
  std::vector<int64_t> sizes = {x[0], k[0]};
  for (int dim = 2; dim < 4; ++dim) {
    const int64_t padded = x[dim] + 2 * window.padding;
    if (k[dim] < 1 || padded < 1 || k[dim] - 1 > (padded - 1) / window.dilation) {
      return absl::InvalidArgumentError(
          absl::StrCat("the kernel does not fit: x is ", x.ToString(), " with padding ", window.padding, ", k is ",
                       k.ToString(), window.dilation == 1 ? "" : absl::StrCat(" with dilation ", window.dilation)));
    }
    sizes.push_back((padded - 1 - (k[dim] - 1) * window.dilation) / window.stride + 1);
  }
  return Shape(std::move(sizes));
}

absl::StatusOr<Types> InferConv2d(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kFloat, Exactly(4)}, {"k", kFloat, Exactly(4)}}));
  OF_ASSIGN_OR_RETURN(const Window window, WindowAttrs(c));
  OF_ASSIGN_OR_RETURN(Shape y, Convolved(c.inputs[0].shape, c.inputs[1].shape, window));
  OF_ASSIGN_OR_RETURN(const DType out, ProductDType(c.attrs, c.inputs[0].dtype));
  return Outputs({{out, std::move(y)}});
}

// What a node and its gradients have in common, and `more`.
AttrMap SameWindow(const AttrMap& attrs, AttrMap window) {
  for (const char* const name : {"stride", "padding", "dilation", "groups"}) {
    if (attrs.Has(name)) window.Set(name, attrs.Int(name));
  }
  return window;
}

AttrMap KernelSizes(const Shape& k) { return {{"kernel_height", k[2]}, {"kernel_width", k[3]}}; }

absl::Status Conv2dGrad(GradContext& c) {
  const Tensor x = c.input(0), k = c.input(1);
  const DType dtype = x.type().dtype;
  const Tensor dy = *c.output_grad(0, dtype);
  if (c.needs_grad(0)) {
    const AttrMap window = SameWindow(c.attrs(), {{"height", x.shape()[2]}, {"width", x.shape()[3]}});
    c.SetInputGrad(0, c.Call1("conv2d_dgrad", {dy, k}, Unrounded(window, dtype)));
  }
  if (c.needs_grad(1)) {
    const AttrMap window = SameWindow(c.attrs(), KernelSizes(k.shape()));
    c.SetInputGrad(1, c.Call1("conv2d_wgrad", {x, dy}, Unrounded(window, dtype)));
  }
  return absl::OkStatus();
}

// dx = dgrad(dy, k): the convolution is its transpose in dy again.
absl::Status DgradGrad(GradContext& c) {
  const Tensor dy = c.input(0), k = c.input(1);
  const DType dtype = dy.type().dtype;
  const Tensor g = *c.output_grad(0, dtype);
  if (c.needs_grad(0)) {
    c.SetInputGrad(0, c.Call1("conv2d", {g, k}, Unrounded(SameWindow(c.attrs(), {}), dtype)));
  }
  if (c.needs_grad(1)) {
    const AttrMap window = SameWindow(c.attrs(), KernelSizes(k.shape()));
    c.SetInputGrad(1, c.Call1("conv2d_wgrad", {g, dy}, Unrounded(window, dtype)));
  }
  return absl::OkStatus();
}

// A group per channel, of samples that have these types.
bool IsDepthwise(const AttrMap& attrs, const Shape& a, const Shape& b) {
  const int64_t groups = attrs.Int("groups", 1);
  return groups > 1 && a[1] == groups && b[1] == groups;
}

// The rule with one group, with a group per channel, or with others, given the types of both tensors of samples.
std::string RuleOf(const AttrMap& attrs, const Shape& a, const Shape& b, const char* one, const char* depthwise,
                   const char* grouped) {
  constexpr const char kPixels[] = "; whole h w i j p q";
  constexpr const char kGroups[] = "; whole a b o h w i j p q";
  const bool some = attrs.Int("groups", 1) > 1, each = IsDepthwise(attrs, a, b);
  return absl::StrCat(!some  ? one
                      : each ? depthwise
                             : grouped,
                      some && !each ? kGroups : kPixels, "; linear 0; linear 1");
}

// `dy` is what the convolution of x with k gives.
absl::Status CheckConvolution(const TensorType& dy, const Shape& x, const Shape& k, const Window& window) {
  OF_ASSIGN_OR_RETURN(const Shape y, Convolved(x, k, window));
  return CheckType("dy", dy, {dy.dtype, y},
                   absl::StrCat("a convolution of ", x.ToString(), " with ", k.ToString(), ", stride ", window.stride,
                                " and padding ", window.padding));
}

absl::StatusOr<Types> InferDgrad(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"dy", kFloat, Exactly(4)}, {"k", kFloat, Exactly(4)}}));
  const TensorType &dy = c.inputs[0], &k = c.inputs[1];
  OF_ASSIGN_OR_RETURN(const Window window, WindowAttrs(c));
  OF_ASSIGN_OR_RETURN(const int64_t height, IntAttr(c.attrs, "height", 0, kMaxWindow));
  OF_ASSIGN_OR_RETURN(const int64_t width, IntAttr(c.attrs, "width", 0, kMaxWindow));
  int64_t channels = 0;
  if (__builtin_mul_overflow(k.shape[1], window.groups, &channels)) {
    return absl::InvalidArgumentError(absl::StrCat("the result has more than 2^63 channels: k is ", k.ToString()));
  }
  const Shape x{dy.shape[0], channels, height, width};
  OF_RETURN_IF_ERROR(CheckConvolution(dy, x, k.shape, window));
  OF_ASSIGN_OR_RETURN(const DType out, ProductDType(c.attrs, dy.dtype));
  return Outputs({{out, x}});
}

absl::StatusOr<Types> InferConvWgrad(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kFloat, Exactly(4)}, {"dy", kFloat, Exactly(4)}}));
  const TensorType &x = c.inputs[0], &dy = c.inputs[1];
  OF_ASSIGN_OR_RETURN(const Window window, WindowAttrs(c));
  OF_ASSIGN_OR_RETURN(const int64_t height, IntAttr(c.attrs, "kernel_height", 1, kMaxWindow));
  OF_ASSIGN_OR_RETURN(const int64_t width, IntAttr(c.attrs, "kernel_width", 1, kMaxWindow));
  const Shape k{dy.shape[1], window.groups == 0 ? 1 : x.shape[1] / window.groups, height, width};
  OF_RETURN_IF_ERROR(CheckConvolution(dy, x.shape, k, window));
  OF_ASSIGN_OR_RETURN(const DType out, ProductDType(c.attrs, x.dtype));
  return Outputs({{out, k}});
}

// Every element of y (or dy) meets one filter k[o]: c * i * j products and as many sums.
double ConvolutionFlops(const Shape& y, const Shape& k) {
  return 2.0 * static_cast<double>(y.count()) * static_cast<double>(k[1] * k[2] * k[3]);
}

double Conv2dFlops(absl::Span<const TensorType> inputs, absl::Span<const TensorType> outputs, const AttrMap&) {
  return ConvolutionFlops(outputs[0].shape, inputs[1].shape);
}
double DgradFlops(absl::Span<const TensorType> inputs, absl::Span<const TensorType>, const AttrMap&) {
  return ConvolutionFlops(inputs[0].shape, inputs[1].shape);
}
double ConvWgradFlops(absl::Span<const TensorType> inputs, absl::Span<const TensorType> outputs, const AttrMap&) {
  return ConvolutionFlops(inputs[1].shape, outputs[0].shape);
}

// Each tensor of samples by itself; a kernel k, or its gradient, is row-major.
std::vector<int> BlocksOfForward(absl::Span<const TensorType>, absl::Span<const TensorType>, const AttrMap&) {
  return {0, -1, 1};  // x, k, y
}
std::vector<int> BlocksOfDgrad(absl::Span<const TensorType>, absl::Span<const TensorType>, const AttrMap&) {
  return {0, -1, 1};  // dy, k, dx
}
std::vector<int> BlocksOfWgrad(absl::Span<const TensorType>, absl::Span<const TensorType>, const AttrMap&) {
  return {0, 1, -1};  // x, dy, dk
}

std::string Conv2dRule(absl::Span<const TensorType> inputs, const AttrMap& attrs) {
  const Shape &x = inputs[0].shape, &k = inputs[1].shape;
  return RuleOf(attrs, x, Shape{x[0], k[0]}, "nchw,ocij->nopq", "nchw,c1ij->ncpq", "nahw,obij->nopq");
}
std::string DgradRule(absl::Span<const TensorType> inputs, const AttrMap& attrs) {
  const Shape &dy = inputs[0].shape, &k = inputs[1].shape;
  const int64_t channels = k[1] * attrs.Int("groups", 1);
  return RuleOf(attrs, dy, Shape{dy[0], channels}, "nopq,ocij->nchw", "ncpq,c1ij->nchw", "nopq,obij->nahw");
}
std::string WgradRule(absl::Span<const TensorType> inputs, const AttrMap& attrs) {
  const Shape &x = inputs[0].shape, &dy = inputs[1].shape;
  return RuleOf(attrs, x, dy, "nchw,nopq->ocij", "nchw,ncpq->c1ij", "nahw,nopq->obij");
}

// Where channels are split there is a group for each.
AttrMap GroupsOfShard(const AttrMap& attrs, absl::Span<const ShardType> inputs, absl::Span<const ShardType>) {
  const bool split = attrs.Int("groups", 1) > 1 && inputs[0].logical_dims[1] == attrs.Int("groups");
  return split ? With(attrs, "groups", inputs[0].dims[1]) : attrs;
}

}  // namespace

void AddConv2dOps(OpRegistry& registry) {
  registry.Add({.name = "conv2d",
                .rule = "nchw,ocij->nopq; whole h w i j p q; linear 0; linear 1",
                .rule_for = Conv2dRule,
                .infer = InferConv2d,
                .shard_attrs = GroupsOfShard,
                .grad = Conv2dGrad,
                .flops = Conv2dFlops,
                .precision = Precision::kCompute,
                .has_out_dtype = true,
                .blocks = BlocksOfForward});
  registry.Add({.name = "conv2d_dgrad",
                .rule = "nopq,ocij->nchw; whole h w i j p q; linear 0; linear 1",
                .rule_for = DgradRule,
                .infer = InferDgrad,
                .shard_attrs = GroupsOfShard,
                .grad = DgradGrad,
                .flops = DgradFlops,
                .precision = Precision::kCompute,
                .has_out_dtype = true,
                .blocks = BlocksOfDgrad});
  registry.Add({.name = "conv2d_wgrad",
                .rule = "nchw,nopq->ocij; whole h w i j p q; linear 0; linear 1",
                .rule_for = WgradRule,
                .infer = InferConvWgrad,
                .shard_attrs = GroupsOfShard,
                .flops = ConvWgradFlops,
                .precision = Precision::kCompute,
                .has_out_dtype = true,
                .blocks = BlocksOfWgrad});
}

}  // namespace oneflow::ops
