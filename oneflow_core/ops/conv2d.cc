// conv2d: y[n,o,p,q] = sum over c, i, j of x[n,c,p*s+i-padding,q*s+j-padding] * k[o,c,i,j] with stride s; x is 0
// outside. conv2d_dgrad and conv2d_wgrad are its transposes with respect to x and k; sizes that cannot be seen from
// their operands (x's under a stride, k's) are attributes.
#include "oneflow_core/grad_context.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"

namespace oneflow::ops {
namespace {

struct Window {
  int64_t stride = 1;
  int64_t padding = 0;
};

// Keeps sizes plus twice the padding far from overflowing.
constexpr int64_t kMaxWindow = int64_t{1} << 30;

absl::StatusOr<Window> WindowAttrs(const AttrMap& attrs) {
  Window window;
  OF_ASSIGN_OR_RETURN(window.stride, IntAttr(attrs, "stride", 1, kMaxWindow));
  OF_ASSIGN_OR_RETURN(window.padding, IntAttr(attrs, "padding", 0, kMaxWindow));
  return window;
}

// The output of a convolution of `x` [n,c,h,w] with `k` [o,c,i,j].
absl::StatusOr<Shape> Convolved(const Shape& x, const Shape& k, const Window& window) {
  if (x[1] != k[1]) {
    return absl::InvalidArgumentError(absl::StrCat("channels differ: x is ", x.ToString(), ", k is ", k.ToString(),
                                                   " (", x[1], " against ", k[1], ")"));
  }
  std::vector<int64_t> sizes = {x[0], k[0]};
  for (int dim = 2; dim < 4; ++dim) {
    const int64_t padded = x[dim] + 2 * window.padding;
    if (k[dim] < 1 || k[dim] > padded) {
      return absl::InvalidArgumentError(absl::StrCat("the kernel does not fit: x is ", x.ToString(), " with padding ",
                                                     window.padding, ", k is ", k.ToString()));
    }
    sizes.push_back((padded - k[dim]) / window.stride + 1);
  }
  return Shape(std::move(sizes));
}

absl::StatusOr<Types> InferConv2d(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kFloat, Exactly(4)}, {"k", kFloat, Exactly(4)}}));
  OF_ASSIGN_OR_RETURN(const Window window, WindowAttrs(c.attrs));
  OF_ASSIGN_OR_RETURN(Shape y, Convolved(c.inputs[0].shape, c.inputs[1].shape, window));
  OF_ASSIGN_OR_RETURN(const DType out, ProductDType(c.attrs, c.inputs[0].dtype));
  return Outputs({{out, std::move(y)}});
}

absl::Status Conv2dGrad(GradContext& c) {
  const Tensor x = c.input(0), k = c.input(1);
  const DType dtype = x.type().dtype;
  const Tensor dy = *c.output_grad(0, dtype);
  const AttrMap attrs = c.attrs();
  const int64_t stride = attrs.Int("stride"), padding = attrs.Int("padding");
  if (c.needs_grad(0)) {
    const AttrMap window = {
        {"stride", stride}, {"padding", padding}, {"height", x.shape()[2]}, {"width", x.shape()[3]}};
    c.SetInputGrad(0, c.Call1("conv2d_dgrad", {dy, k}, Unrounded(window, dtype)));
  }
  if (c.needs_grad(1)) {
    const AttrMap window = {
        {"stride", stride}, {"padding", padding}, {"kernel_height", k.shape()[2]}, {"kernel_width", k.shape()[3]}};
    c.SetInputGrad(1, c.Call1("conv2d_wgrad", {x, dy}, Unrounded(window, dtype)));
  }
  return absl::OkStatus();
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
  OF_ASSIGN_OR_RETURN(const Window window, WindowAttrs(c.attrs));
  OF_ASSIGN_OR_RETURN(const int64_t height, IntAttr(c.attrs, "height", 0, kMaxWindow));
  OF_ASSIGN_OR_RETURN(const int64_t width, IntAttr(c.attrs, "width", 0, kMaxWindow));
  const Shape x{dy.shape[0], k.shape[1], height, width};
  OF_RETURN_IF_ERROR(CheckConvolution(dy, x, k.shape, window));
  OF_ASSIGN_OR_RETURN(const DType out, ProductDType(c.attrs, dy.dtype));
  return Outputs({{out, x}});
}

absl::StatusOr<Types> InferConvWgrad(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kFloat, Exactly(4)}, {"dy", kFloat, Exactly(4)}}));
  const TensorType &x = c.inputs[0], &dy = c.inputs[1];
  OF_ASSIGN_OR_RETURN(const Window window, WindowAttrs(c.attrs));
  OF_ASSIGN_OR_RETURN(const int64_t height, IntAttr(c.attrs, "kernel_height", 1, kMaxWindow));
  OF_ASSIGN_OR_RETURN(const int64_t width, IntAttr(c.attrs, "kernel_width", 1, kMaxWindow));
  const Shape k{dy.shape[1], x.shape[1], height, width};
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

}  // namespace

void AddConv2dOps(OpRegistry& registry) {
  registry.Add({.name = "conv2d",
                .rule = "nchw,ocij->nopq; whole h w i j p q; linear 0; linear 1",
                .infer = InferConv2d,
                .grad = Conv2dGrad,
                .flops = Conv2dFlops,
                .precision = Precision::kCompute,
                .has_out_dtype = true,
                .blocks = BlocksOfForward});
  registry.Add({.name = "conv2d_dgrad",
                .rule = "nopq,ocij->nchw; whole h w i j p q; linear 0; linear 1",
                .infer = InferDgrad,
                .flops = DgradFlops,
                .precision = Precision::kCompute,
                .has_out_dtype = true,
                .blocks = BlocksOfDgrad});
  registry.Add({.name = "conv2d_wgrad",
                .rule = "nchw,nopq->ocij; whole h w i j p q; linear 0; linear 1",
                .infer = InferConvWgrad,
                .flops = ConvWgradFlops,
                .precision = Precision::kCompute,
                .has_out_dtype = true,
                .blocks = BlocksOfWgrad});
}

}  // namespace oneflow::ops
