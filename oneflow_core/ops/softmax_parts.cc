// The softmax and its cross entropy in parts between which the classes may lie split, as the vocabulary of a language
// model does. Each rank works on its columns; the largest, the sums and the dot products of rows are partial and small:
//
//   m = reduce_max(x)                           P(max)     y = softmax_apply(x, m, exp_sum(x, m))
//   s, z = softmax_sums(x, labels, m)           P          dx = softmax_grad_apply(dy, y, row_dot(dy, y))
//   loss, lse = softmax_loss(m, s, z)                      correct = same_index(first_index(x, m), labels)
//
// x - m only keeps exp from overflowing: what is made of all parts does not depend on m. A part by itself does, and so
// do the gradients here; they cancel where parts meet.
#include <limits>

#include "oneflow_core/grad_context.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"
#include "oneflow_core/ops/per_row.h"

namespace oneflow::ops {
namespace {

// Operand `index`, called `name`, has one element per row of operand 0, called `x_name`.
absl::Status CheckPerRow(const InferContext& c, int index, absl::string_view name, DType dtype,
                         absl::string_view x_name) {
  const TensorType& x = c.inputs[0];
  return CheckType(name, c.inputs[index], OnePerRow(x, dtype), absl::StrCat(x_name, ", which is ", x.ToString(), ","));
}

absl::StatusOr<Types> InferSoftmaxSums(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kFloat, AtLeast(1)}, {"labels", kIndex}, {"m", kFloat}}));
  OF_RETURN_IF_ERROR(CheckPerRow(c, 1, "labels", DType::kInt32, "x"));
  OF_RETURN_IF_ERROR(CheckPerRow(c, 2, "m", c.inputs[0].dtype, "x"));
  const TensorType sum = OnePerRow(c.inputs[0]);
  return Outputs({sum, sum});
}

absl::StatusOr<Types> InferSoftmaxLoss(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"m", kFloat}, {"s", kFloat32}, {"z", kFloat32}}));
  const TensorType& m = c.inputs[0];
  const TensorType statistic = {DType::kFloat32, m.shape};
  const std::string because = absl::StrCat("m, which is ", m.ToString(), ",");
  OF_RETURN_IF_ERROR(CheckType("s", c.inputs[1], statistic, because));
  OF_RETURN_IF_ERROR(CheckType("z", c.inputs[2], statistic, because));
  return Outputs({statistic, statistic});
}

absl::StatusOr<Types> InferExpSum(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kFloat, AtLeast(1)}, {"m", kFloat}}));
  OF_RETURN_IF_ERROR(CheckPerRow(c, 1, "m", c.inputs[0].dtype, "x"));
  return Outputs({OnePerRow(c.inputs[0])});
}

absl::StatusOr<Types> InferSoftmaxApply(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kFloat, AtLeast(1)}, {"m", kFloat}, {"s", kFloat32}}));
  OF_RETURN_IF_ERROR(CheckPerRow(c, 1, "m", c.inputs[0].dtype, "x"));
  OF_RETURN_IF_ERROR(CheckPerRow(c, 2, "s", DType::kFloat32, "x"));
  return Outputs({c.inputs[0]});
}

absl::StatusOr<Types> InferRowDot(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"a", kFloat, AtLeast(1)}, {"b", kFloat, AtLeast(1)}}));
  OF_RETURN_IF_ERROR(CheckSame("a", c.inputs[0], "b", c.inputs[1]));
  return Outputs({OnePerRow(c.inputs[0])});
}

absl::StatusOr<Types> InferSoftmaxGradApply(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"dy", kFloat, AtLeast(1)}, {"y", kFloat, AtLeast(1)}, {"d", kFloat32}}));
  OF_RETURN_IF_ERROR(CheckSame("dy", c.inputs[0], "y", c.inputs[1]));
  OF_RETURN_IF_ERROR(CheckPerRow(c, 2, "d", DType::kFloat32, "dy"));
  return Outputs({c.inputs[0]});
}

// The largest i32 stands for "none", so it must not be the number of a column.
absl::StatusOr<Types> InferFirstIndex(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kFloat, AtLeast(1)}, {"m", kFloat}}));
  const TensorType& x = c.inputs[0];
  OF_RETURN_IF_ERROR(CheckPerRow(c, 1, "m", x.dtype, "x"));
  if (x.shape.dims().back() > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat("x is ", x.ToString(), ", more columns than an i32 can number"));
  }
  return Outputs({OnePerRow(x, DType::kInt32)});
}

absl::StatusOr<Types> InferSameIndex(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"a", kIndex}, {"b", kIndex}}));
  OF_RETURN_IF_ERROR(CheckSame("a", c.inputs[0], "b", c.inputs[1]));
  return Outputs({{DType::kFloat32, c.inputs[0].shape}});
}

// `t` as it is, or cast.
Tensor As(GradContext& c, Tensor t, DType dtype) {
  return t.type().dtype == dtype ? t : c.Call1("cast", {t}, {{"dtype", std::string(Name(dtype))}});
}

// `t`, which has one element per row of `x`, as a column of x's dtype: it broadcasts along the rows of x.
Tensor AsColumn(GradContext& c, Tensor t, const TensorType& x) {
  t = As(c, t, x.dtype);
  std::vector<int64_t> sizes = t.shape().dims();
  sizes.push_back(1);
  return c.Call1("reshape", {t}, {{"shape", std::move(sizes)}});
}

// dx = ds * exp(x - m), dm = -ds * s.
absl::Status ExpSumGrad(GradContext& c) {
  const TensorType x = c.input(0).type();  // a copy: adding nodes moves the types of the graph
  const Tensor ds = *c.output_grad(0);
  if (c.needs_grad(0)) {
    const Tensor e = c.Call1("exp", {c.Call1("sub", {c.input(0), AsColumn(c, c.input(1), x)})});
    c.SetInputGrad(0, c.Call1("mul", {e, AsColumn(c, ds, x)}));
  }
  if (c.needs_grad(1)) c.SetInputGrad(1, As(c, c.Call1("neg", {c.Call1("mul", {ds, c.output(0)})}), x.dtype));
  return absl::OkStatus();
}

// y = exp(x - m) / s:  dx = dy * y, dm = -d, ds = -d / s with d the sum of dy * y over the row.
absl::Status SoftmaxApplyGrad(GradContext& c) {
  const DType dtype = c.input(0).type().dtype;
  const Tensor dy = *c.output_grad(0), y = c.output(0), s = c.input(2);
  if (c.needs_grad(0)) c.SetInputGrad(0, c.Call1("mul", {dy, y}));
  if (!c.needs_grad(1) && !c.needs_grad(2)) return absl::OkStatus();
  const Tensor minus_d = c.Call1("neg", {c.Call1("row_dot", {dy, y})});
  if (c.needs_grad(1)) c.SetInputGrad(1, As(c, minus_d, dtype));
  if (c.needs_grad(2)) c.SetInputGrad(2, c.Call1("div", {minus_d, s}));
  return absl::OkStatus();
}

absl::Status RowDotGrad(GradContext& c) {
  const TensorType a = c.input(0).type();  // a copy: adding nodes moves the types of the graph
  const Tensor dd = AsColumn(c, *c.output_grad(0), a);
  for (const int i : {0, 1}) {
    if (c.needs_grad(i)) c.SetInputGrad(i, c.Call1("mul", {c.input(1 - i), dd}));
  }
  return absl::OkStatus();
}

}  // namespace

void AddSoftmaxPartsOps(OpRegistry& registry) {
  registry.Add(
      {.name = "softmax_sums", .rule = "...c,...,...->...,...", .infer = InferSoftmaxSums, .flops = FlopsOfInput});
  registry.Add(
      {.name = "softmax_loss", .rule = "...,...,...->...,...", .infer = InferSoftmaxLoss, .full_inputs = {1, 2}});
  registry.Add(
      {.name = "exp_sum", .rule = "...c,...->...", .infer = InferExpSum, .grad = ExpSumGrad, .flops = FlopsOfInput});
  registry.Add({.name = "softmax_apply",
                .rule = "...c,...,...->...c",
                .infer = InferSoftmaxApply,
                .grad = SoftmaxApplyGrad,
                .in_place = {{0, 0}},
                .full_inputs = {2}});
  registry.Add({.name = "row_dot",
                .rule = "...c,...c->...; linear 0; linear 1",
                .infer = InferRowDot,
                .grad = RowDotGrad,
                .flops = FlopsOfInput});
  registry.Add({.name = "softmax_grad_apply",
                .rule = "...c,...c,...->...c; linear 0 2",
                .infer = InferSoftmaxGradApply,
                .in_place = {{0, 0}, {1, 0}},
                .full_inputs = {2}});
  registry.Add(
      {.name = "first_index", .rule = "...c,...->...; min c", .infer = InferFirstIndex, .flops = FlopsOfInput});
  registry.Add({.name = "same_index", .rule = "...,...->...", .infer = InferSameIndex});
}

}  // namespace oneflow::ops
