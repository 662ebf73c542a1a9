// max_pool2d: y[n,c,p,q] = the maximum of a kernel x kernel window of x, without padding; index = h*W + w of the first
// maximum in x's plane, which is all that max_pool2d_grad needs to put dy back.
#include "oneflow_core/grad_context.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"

namespace oneflow::ops {
namespace {

absl::StatusOr<Types> InferMaxPool2d(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kFloat, Exactly(4)}}));
  const TensorType& x = c.inputs[0];
  OF_ASSIGN_OR_RETURN(const int64_t kernel, IntAttr(c.attrs, "kernel", 1));
  OF_ASSIGN_OR_RETURN(const int64_t stride, IntAttr(c.attrs, "stride", 1));
  std::vector<int64_t> sizes = x.shape.dims();
  for (int dim = 2; dim < 4; ++dim) {
    if (kernel > x.shape[dim]) {
      return absl::InvalidArgumentError(absl::StrCat("attribute 'kernel' is ", kernel, " but dimension ", dim,
                                                     " of x, which is ", x.ToString(), ", has ", x.shape[dim]));
    }
    sizes[dim] = (x.shape[dim] - kernel) / stride + 1;
  }
  const Shape y(std::move(sizes));
  return Outputs({{x.dtype, y}, {DType::kInt32, y}});
}

absl::Status MaxPool2dGrad(GradContext& c) {
  const Shape x = c.input(0).shape();
  const int64_t height = x[2], width = x[3];
  c.SetInputGrad(0,
                 c.Call1("max_pool2d_grad", {*c.output_grad(0), c.output(1)}, {{"height", height}, {"width", width}}));
  return absl::OkStatus();
}

absl::StatusOr<Types> InferMaxPool2dGrad(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"dy", kFloat, Exactly(4)}, {"index", kIndex}}));
  const TensorType& dy = c.inputs[0];
  OF_RETURN_IF_ERROR(
      CheckType("index", c.inputs[1], {DType::kInt32, dy.shape}, absl::StrCat("dy, which is ", dy.ToString(), ",")));
  OF_ASSIGN_OR_RETURN(const int64_t height, IntAttr(c.attrs, "height", dy.shape[2]));
  OF_ASSIGN_OR_RETURN(const int64_t width, IntAttr(c.attrs, "width", dy.shape[3]));
  return Outputs({{dy.dtype, {dy.shape[0], dy.shape[1], height, width}}});
}

}  // namespace

void AddMaxPool2dOps(OpRegistry& registry) {
  registry.Add({.name = "max_pool2d",
                .rule = "nchw->ncpq,ncpq; whole h w p q",
                .infer = InferMaxPool2d,
                .grad = MaxPool2dGrad,
                .flops = FlopsOfInput,
                .precision = Precision::kFollow,
                .blocks = BlocksByChannel});
  registry.Add({.name = "max_pool2d_grad",
                .rule = "ncpq,ncpq->nchw; whole h w p q; linear 0",
                .infer = InferMaxPool2dGrad,
                .precision = Precision::kFollow,
                .blocks = BlocksByChannel});
}

}  // namespace oneflow::ops
