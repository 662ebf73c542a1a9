// sum_to and broadcast_to: y[..] = sum of x over the dimensions that `shape` lacks or has as 1, and its transpose. Each
// is the other's gradient; together they are the gradients of broadcasting and of reductions.
#include "oneflow_core/ops/broadcast.h"

#include <algorithm>

#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"

namespace oneflow::ops {
namespace {

// Checks that `narrow` broadcasts to `wide` itself and to nothing larger.
absl::Status CheckBroadcasts(const Shape& narrow, const Shape& wide) {
  const absl::StatusOr<Shape> both = BroadcastShapes(narrow, wide);
  if (both.ok() && *both == wide) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(narrow.ToString(), " does not broadcast to ", wide.ToString()));
}

absl::StatusOr<Types> InferSumTo(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kNumber}}));
  OF_ASSIGN_OR_RETURN(const Shape shape, ShapeAttr(c.attrs, "shape"));
  OF_RETURN_IF_ERROR_AT(CheckBroadcasts(shape, c.inputs[0].shape), "attribute 'shape'");
  OF_ASSIGN_OR_RETURN(const DType out, OutDType(c.attrs, c.inputs[0].dtype));
  return Outputs({{out, shape}});
}

// Of x[a,b,c] to a shape [b,1] "abc->b1".
std::string SumToRule(absl::Span<const TensorType> inputs, const AttrMap& attrs) {
  const Shape& x = inputs[0].shape;
  const std::vector<int64_t> shape = attrs.Ints("shape");
  const int missing = x.rank() - static_cast<int>(shape.size());
  std::string from, to;
  for (int d = 0; d < x.rank(); ++d) {
    from.push_back(static_cast<char>('a' + d));
    if (d >= missing) to.push_back(shape[d - missing] == x[d] ? from.back() : '1');
  }
  return absl::StrCat(from, "->", to, "; linear 0");
}

absl::StatusOr<Types> InferBroadcastTo(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kNumber}}));
  OF_ASSIGN_OR_RETURN(const Shape shape, ShapeAttr(c.attrs, "shape"));
  OF_RETURN_IF_ERROR_AT(CheckBroadcasts(c.inputs[0].shape, shape), "attribute 'shape'");
  return Outputs({{c.inputs[0].dtype, shape}});
}

absl::Status SumToGrad(GradContext& c) {
  c.SetInputGrad(0, c.Call1("broadcast_to", {*c.output_grad(0)}, {{"shape", c.input(0).shape().dims()}}));
  return absl::OkStatus();
}

absl::Status BroadcastToGrad(GradContext& c) {
  c.SetInputGrad(0, SumTo(c, *c.output_grad(0), c.input(0).shape()));
  return absl::OkStatus();
}

// From a number per channel, which lies one way, to all pixels.
std::vector<int> BlocksOfBroadcast(absl::Span<const TensorType> inputs, absl::Span<const TensorType> outputs,
                                   const AttrMap&) {
  const Shape &x = inputs[0].shape, &y = outputs[0].shape;
  const bool to_pixels = x.rank() == 4 && y.rank() == 4 && x[0] == y[0] && x[1] == y[1] && x[2] == 1 && x[3] == 1;
  return {-1, to_pixels ? 0 : -1};
}

}  // namespace

absl::StatusOr<Shape> BroadcastShapes(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  std::vector<int64_t> sizes(rank);
  for (int i = 0; i < rank; ++i) {  // i counts from the last dimension
    const int64_t in_a = i < a.rank() ? a[a.rank() - 1 - i] : 1;
    const int64_t in_b = i < b.rank() ? b[b.rank() - 1 - i] : 1;
    if (in_a != in_b && in_a != 1 && in_b != 1) {
      return absl::InvalidArgumentError(absl::StrCat("shapes do not broadcast: a is ", a.ToString(), ", b is ",
                                                     b.ToString(), " (", in_a, " against ", in_b, ")"));
    }
    sizes[rank - 1 - i] = in_a == 1 ? in_b : in_a;
  }
  return Shape(std::move(sizes));
}

Tensor SumTo(GradContext& c, Tensor grad, Shape shape) {
  if (grad.shape() == shape) return grad;
  return c.Call1("sum_to", {grad}, Unrounded({{"shape", shape.dims()}}, grad.type().dtype));
}

void AddBroadcastOps(OpRegistry& registry) {
  registry.Add({.name = "sum_to",
                .rule_for = SumToRule,
                .infer = InferSumTo,
                .shard_attrs = ShapeOfShard,
                .grad = SumToGrad,
                .flops = FlopsOfInput,
                .precision = Precision::kFollow,
                .has_out_dtype = true,
                .ragged = RaggedUse::kSums});
  registry.Add({.name = "broadcast_to",
                .infer = InferBroadcastTo,
                .shard_attrs = ShapeOfShard,
                .grad = BroadcastToGrad,
                .precision = Precision::kFollow,
                .blocks = BlocksOfBroadcast});
}

}  // namespace oneflow::ops
