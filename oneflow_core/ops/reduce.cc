// y = sum, mean, maximum or minimum of x over `axes`; square_sum: the sum of all squares. A mean divides by the logical
// count, a constant of the graph, so that it is as linear as a sum. The gradient of an extremum is shared evenly by all
// elements that are it: extremum_count says how many, extremum_grad hands out the shares.
#include <algorithm>

#include "oneflow_core/grad_context.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"

namespace oneflow::ops {
namespace {

absl::StatusOr<std::vector<int64_t>> Axes(const AttrMap& attrs, const TensorType& x) {
  OF_ASSIGN_OR_RETURN(std::vector<int64_t> axes, IntsAttr(attrs, "axes"));
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < 0 || axes[i] >= x.shape.rank() || (i > 0 && axes[i] <= axes[i - 1])) {
      return absl::InvalidArgumentError(absl::StrCat("attribute 'axes' is ", Shape(axes).ToString(),
                                                     " but must be ascending dimensions of x, which is ",
                                                     x.ToString()));
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

// What the attributes make of `x`.
absl::StatusOr<TensorType> ReducedType(const AttrMap& attrs, const TensorType& x) {
  OF_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, Axes(attrs, x));
  OF_ASSIGN_OR_RETURN(const bool keepdims, BoolAttrOr(attrs, "keepdims", false));
  return TensorType{x.dtype, Reduced(x.shape, axes, keepdims)};
}

absl::StatusOr<Types> InferReduce(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kFloat}}));
  OF_ASSIGN_OR_RETURN(TensorType y, ReducedType(c.attrs, c.inputs[0]));
  return Outputs({std::move(y)});
}

// Of x[a,b,c] over b "abc->ac", or "abc->a1c". A mean divides by the logical count, so that means of parts add up as
// sums do.
std::string SumRule(absl::Span<const TensorType> inputs, const AttrMap& attrs) {
  const std::vector<int64_t> axes = attrs.Ints("axes");
  std::string x, y;
  for (int d = 0; d < inputs[0].shape.rank(); ++d) {
    x.push_back(static_cast<char>('a' + d));
    const bool reduced = std::binary_search(axes.begin(), axes.end(), d);
    if (!reduced || attrs.Bool("keepdims")) y.push_back(reduced ? '1' : x.back());
  }
  return absl::StrCat(x, "->", y, "; linear 0");
}

// The mean and the extrema of nothing do not exist.
absl::StatusOr<Types> InferReduceNonEmpty(const InferContext& c) {
  OF_ASSIGN_OR_RETURN(Types outputs, InferReduce(c));
  if (!c.of_shards && c.inputs[0].shape.count() == 0) {
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

absl::Status ReduceExtremumGrad(GradContext& c) {
  const AttrMap attrs = c.attrs();
  const Tensor count = c.Call1("extremum_count", {c.input(0), c.output(0)}, attrs);
  c.SetInputGrad(0, c.Call1("extremum_grad", {*c.output_grad(0), c.input(0), c.output(0), count}, attrs));
  return absl::OkStatus();
}

absl::StatusOr<Types> InferExtremumCount(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kFloat}, {"y", kFloat}}));
  OF_ASSIGN_OR_RETURN(const TensorType y, ReducedType(c.attrs, c.inputs[0]));
  OF_RETURN_IF_ERROR(CheckType("y", c.inputs[1], y, absl::StrCat("x, which is ", c.inputs[0].ToString(), ",")));
  return Outputs({{DType::kFloat32, y.shape}});
}

absl::StatusOr<Types> InferExtremumGrad(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"dy", kFloat}, {"x", kFloat}, {"y", kFloat}, {"n", kFloat32}}));
  const TensorType& x = c.inputs[1];
  OF_ASSIGN_OR_RETURN(const TensorType y, ReducedType(c.attrs, x));
  const std::string because = absl::StrCat("x, which is ", x.ToString(), ",");
  OF_RETURN_IF_ERROR(CheckType("dy", c.inputs[0], y, because));
  OF_RETURN_IF_ERROR(CheckType("y", c.inputs[2], y, because));
  OF_RETURN_IF_ERROR(CheckType("n", c.inputs[3], {DType::kFloat32, y.shape}, because));
  return Outputs({x});
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

// Over the pixels: what is left is a number per channel, which lies one way.
std::vector<int> BlocksOfMean(absl::Span<const TensorType> inputs, absl::Span<const TensorType>, const AttrMap& attrs) {
  const bool of_pixels = inputs[0].shape.rank() == 4 && attrs.Ints("axes") == std::vector<int64_t>{2, 3};
  return {of_pixels ? 0 : -1, -1};
}

}  // namespace

void AddReduceOps(OpRegistry& registry) {
  registry.Add({.name = "reduce_sum",
                .rule_for = SumRule,
                .infer = InferReduce,
                .grad = ReduceSumGrad,
                .flops = FlopsOfInput,
                .ragged = RaggedUse::kSums});
  registry.Add({.name = "reduce_mean",
                .rule_for = SumRule,
                .infer = InferReduceNonEmpty,
                .grad = ReduceMeanGrad,
                .flops = FlopsOfInput,
                .ragged = RaggedUse::kRows,
                .blocks = BlocksOfMean});
  for (const char* name : {"reduce_max", "reduce_min"}) {
    registry.Add({.name = name, .infer = InferReduceNonEmpty, .grad = ReduceExtremumGrad, .flops = FlopsOfInput});
  }
  registry.Add({.name = "extremum_count", .infer = InferExtremumCount, .flops = FlopsOfInput});
  registry.Add({.name = "extremum_grad", .infer = InferExtremumGrad, .full_inputs = {3}});
  registry.Add({.name = "square_sum",
                .rule = "...->",
                .infer = InferSquareSum,
                .grad = SquareSumGrad,
                .flops = FlopsOfInput,
                .ragged = RaggedUse::kSums});
}

}  // namespace oneflow::ops
