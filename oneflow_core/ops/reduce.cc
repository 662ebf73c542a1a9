// y = sum, mean or maximum of x over `axes`; square_sum: the sum of all squares. A mean divides by the logical count, a
// constant of the graph, so that it is as linear as a sum.
#include <algorithm>

#include "oneflow_core/builder.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"

namespace oneflow::ops {
namespace {

absl::StatusOr<std::vector<int64_t>> Axes(const InferContext& c) {
  OF_ASSIGN_OR_RETURN(std::vector<int64_t> axes, IntsAttr(c.attrs, "axes"));
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < 0 || axes[i] >= c.inputs[0].shape.rank() || (i > 0 && axes[i] <= axes[i - 1])) {
      return absl::InvalidArgumentError(absl::StrCat("attribute 'axes' is ", Shape(axes).ToString(),
                                                     " but must be ascending dimensions of x, which is ",
                                                     c.inputs[0].ToString()));
    }
  }
  return axes;
}

// `x` without the dimensions `axes`, or with size 1 there.
Shape Reduced(const Shape& x, const std::vector<int64_t>& axes, bool keepdims) {
  std::vector<int64_t> sizes;
  for (int i = 0; i < x.rank(); ++i) {
    if (!std::binary_search(axes.begin(), axes.end(), i)) {
      sizes.push_back(x[i]);
    } else if (keepdims) {
      sizes.push_back(1);
    }
  }
  return Shape(std::move(sizes));
}

absl::StatusOr<Types> InferReduce(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kFloat}}));
  OF_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, Axes(c));
  OF_ASSIGN_OR_RETURN(const bool keepdims, BoolAttrOr(c.attrs, "keepdims", false));
  return Outputs({{c.inputs[0].dtype, Reduced(c.inputs[0].shape, axes, keepdims)}});
}

// The mean and the maximum of nothing do not exist.
absl::StatusOr<Types> InferReduceNonEmpty(const InferContext& c) {
  OF_ASSIGN_OR_RETURN(Types outputs, InferReduce(c));
  if (c.inputs[0].shape.count() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("x is ", c.inputs[0].ToString(), " but must have at least one element"));
  }
  return outputs;
}

// `grad`, which has the reduction's type, repeated along the reduced axes. The reshape is left out where broadcasting
// aligns the dimensions by itself: where only leading ones were reduced.
void SetBroadcast(GradContext& c, Tensor grad) {
  const Shape x = c.input(0).shape();  // a copy: adding nodes moves the types of the graph
  const std::vector<int64_t> axes = c.attrs().Ints("axes");
  const bool leading = axes.empty() || axes.back() + 1 == static_cast<int64_t>(axes.size());
  const Shape kept = Reduced(x, axes, /*keepdims=*/true);
  if (!leading && grad.shape() != kept) grad = c.Call1("reshape", {grad}, {{"shape", kept.dims()}});
  c.SetInputGrad(0, grad.shape() == x ? grad : c.Call1("broadcast_to", {grad}, {{"shape", x.dims()}}));
}

absl::Status ReduceSumGrad(GradContext& c) {
  SetBroadcast(c, *c.output_grad(0));
  return absl::OkStatus();
}

absl::Status ReduceMeanGrad(GradContext& c) {
  const double ratio =
      static_cast<double>(c.output(0).shape().count()) / static_cast<double>(c.input(0).shape().count());
  SetBroadcast(c, c.Call1("scale", {*c.output_grad(0)}, {{"alpha", ratio}}));
  return absl::OkStatus();
}

absl::StatusOr<Types> InferSquareSum(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kFloat}}));
  return Outputs({{DType::kFloat32, {}}});
}

// 2x ds, which is f32 whatever x is.
absl::Status SquareSumGrad(GradContext& c) {
  const DType dtype = c.input(0).type().dtype;
  Tensor ds = c.Call1("scale", {*c.output_grad(0)}, {{"alpha", 2.0}});
  if (dtype != DType::kFloat32) ds = c.Call1("cast", {ds}, {{"dtype", std::string(Name(dtype))}});
  c.SetInputGrad(0, c.Call1("mul", {c.input(0), ds}));
  return absl::OkStatus();
}

}  // namespace

void AddReduceOps(OpRegistry& registry) {
  registry.Add({.name = "reduce_sum", .infer = InferReduce, .grad = ReduceSumGrad, .flops = FlopsOfInput});
  registry.Add({.name = "reduce_mean", .infer = InferReduceNonEmpty, .grad = ReduceMeanGrad, .flops = FlopsOfInput});
  registry.Add({.name = "reduce_max", .infer = InferReduceNonEmpty, .flops = FlopsOfInput});
  registry.Add(
      {.name = "square_sum", .rule = "...->", .infer = InferSquareSum, .grad = SquareSumGrad, .flops = FlopsOfInput});
}

}  // namespace oneflow::ops
