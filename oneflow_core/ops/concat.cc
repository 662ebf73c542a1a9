// concat: the inputs one after another along `axis`. Each input's gradient is its slice of dy.
#include "oneflow_core/grad_context.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"

namespace oneflow::ops {
namespace {

absl::StatusOr<Types> InferConcat(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckEveryOperand(c, {"x", kAny, AtLeast(1)}));
  const TensorType& first = c.inputs[0];
  OF_ASSIGN_OR_RETURN(const int64_t axis, IntAttr(c.attrs, "axis", 0, first.shape.rank() - 1));
  const int dim = static_cast<int>(axis);
  std::vector<int64_t> sizes = first.shape.dims();
  for (size_t i = 1; i < c.inputs.size(); ++i) {
    const TensorType& x = c.inputs[i];
    std::vector<int64_t> others = x.shape.dims();
    if (x.shape.rank() == first.shape.rank()) others[dim] = first.shape[dim];
    if (x.dtype != first.dtype || others != first.shape.dims()) {
      return absl::InvalidArgumentError(absl::StrCat("input 0 is ", first.ToString(), ", input ", i, " is ",
                                                     x.ToString(), "; they may differ only in dimension ", axis));
    }
    if (__builtin_add_overflow(sizes[dim], x.shape[dim], &sizes[dim])) {
      return absl::InvalidArgumentError(absl::StrCat("the inputs have more than 2^63 elements along dimension ", axis));
    }
  }
  return Outputs({{first.dtype, Shape(std::move(sizes))}});
}

absl::Status ConcatGrad(GradContext& c) {
  const int64_t axis = c.attrs().Int("axis");
  int64_t start = 0;
  for (int i = 0; i < static_cast<int>(c.input_grads().size()); ++i) {
    const int64_t size = c.input(i).shape()[static_cast<int>(axis)];
    if (c.needs_grad(i)) {
      c.SetInputGrad(i, c.Call1("slice", {*c.output_grad(0)}, {{"axis", axis}, {"start", start}, {"size", size}}));
    }
    start += size;
  }
  return absl::OkStatus();
}

}  // namespace

void AddConcatOps(OpRegistry& registry) {
  registry.Add({.name = "concat", .infer = InferConcat, .grad = ConcatGrad, .precision = Precision::kFollow});
}

}  // namespace oneflow::ops
