// avg_pool2d: y[n,c,p,q] = the mean of a kernel x kernel window of x, in which the padding counts as zeros.
// adaptive_avg_pool2d has as many windows as are asked for: window i of m begins at floor(i h / m) and ends before
// ceil((i + 1) h / m). A gradient gives each element its share of the windows that cover it.
#include "oneflow_core/grad_context.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"

namespace oneflow::ops {
namespace {

// Keeps sizes plus twice the padding far from overflowing.
constexpr int64_t kMaxPool = int64_t{1} << 30;

// What pooling makes of x [n,c,h,w].
absl::StatusOr<Shape> Pooled(const AttrMap& attrs, const Shape& x) {
  OF_ASSIGN_OR_RETURN(const int64_t kernel, IntAttr(attrs, "kernel", 1, kMaxPool));
  OF_ASSIGN_OR_RETURN(const int64_t stride, IntAttr(attrs, "stride", 1, kMaxPool));
  OF_ASSIGN_OR_RETURN(const int64_t padding, IntAttrOr(attrs, "padding", 0, 0, kernel - 1));
  std::vector<int64_t> sizes = x.dims();
  for (int dim = 2; dim < 4; ++dim) {
    const int64_t padded = x[dim] + 2 * padding;
    if (x[dim] < 1 || kernel > padded) {
      return absl::InvalidArgumentError(absl::StrCat("attribute 'kernel' is ", kernel, " but dimension ", dim,
                                                     " of x, which is ", x.ToString(), ", has ", padded));
    }
    sizes[dim] = (padded - kernel) / stride + 1;
  }
  return Shape(std::move(sizes));
}

// The attributes `height` and `width` in place of the last two dimensions, and no dimension of none among them.
absl::StatusOr<Shape> Resized(const AttrMap& attrs, const Shape& of) {
  OF_ASSIGN_OR_RETURN(const int64_t height, IntAttr(attrs, "height", 1, kMaxPool));
  OF_ASSIGN_OR_RETURN(const int64_t width, IntAttr(attrs, "width", 1, kMaxPool));
  for (int dim = 2; dim < 4; ++dim) {
    if (of[dim] >= 1 && of[dim] <= kMaxPool) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("dimension ", dim, " of ", of.ToString(), " must be in [1, ", kMaxPool, "]"));
  }
  return Shape{of[0], of[1], height, width};
}

absl::StatusOr<Types> InferAvgPool2d(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kFloat, Exactly(4)}}));
  OF_ASSIGN_OR_RETURN(Shape y, Pooled(c.attrs, c.inputs[0].shape));
  return Outputs({{c.inputs[0].dtype, std::move(y)}});
}

absl::StatusOr<Types> InferAvgPool2dGrad(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"dy", kFloat, Exactly(4)}}));
  const TensorType& dy = c.inputs[0];
  OF_ASSIGN_OR_RETURN(Shape x, Resized(c.attrs, dy.shape));
  OF_ASSIGN_OR_RETURN(const Shape y, Pooled(c.attrs, x));
  OF_RETURN_IF_ERROR(CheckType("dy", dy, {dy.dtype, y}, absl::StrCat("pooling of ", x.ToString())));
  return Outputs({{dy.dtype, std::move(x)}});
}

// Both ways: y has the given sizes, or dx.
absl::StatusOr<Types> InferAdaptive(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kFloat, Exactly(4)}}));
  OF_ASSIGN_OR_RETURN(Shape y, Resized(c.attrs, c.inputs[0].shape));
  return Outputs({{c.inputs[0].dtype, std::move(y)}});
}

// The forward node's attributes, but the sizes are those of x.
absl::Status PoolGrad(GradContext& c, const char* op) {
  AttrMap attrs = c.attrs();
  const Shape x = c.input(0).shape();
  attrs.Set("height", x[2]);
  attrs.Set("width", x[3]);
  c.SetInputGrad(0, c.Call1(op, {*c.output_grad(0)}, std::move(attrs)));
  return absl::OkStatus();
}
absl::Status AvgPool2dGrad(GradContext& c) { return PoolGrad(c, "avg_pool2d_grad"); }
absl::Status AdaptiveGrad(GradContext& c) { return PoolGrad(c, "adaptive_avg_pool2d_grad"); }

}  // namespace

void AddAvgPool2dOps(OpRegistry& registry) {
  const auto add = [&](const char* name, const char* rule, decltype(OpDef::infer) infer, decltype(OpDef::grad) grad) {
    registry.Add({.name = name,
                  .rule = rule,
                  .infer = infer,
                  .grad = grad,
                  .flops = FlopsOfInput,
                  .precision = Precision::kFollow,
                  .blocks = BlocksByChannel});
  };
  constexpr const char kForward[] = "nchw->ncpq; whole h w p q; linear 0";
  constexpr const char kBack[] = "ncpq->nchw; whole h w p q; linear 0";
  add("avg_pool2d", kForward, InferAvgPool2d, AvgPool2dGrad);
  add("avg_pool2d_grad", kBack, InferAvgPool2dGrad, nullptr);
  add("adaptive_avg_pool2d", kForward, InferAdaptive, AdaptiveGrad);
  add("adaptive_avg_pool2d_grad", kBack, InferAdaptive, nullptr);
}

}  // namespace oneflow::ops
