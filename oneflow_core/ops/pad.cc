// pad: x with `before` and `after` elements of `value` around it in each dimension. Its gradient is the part of dy
// where x lies.
#include <cmath>

#include "oneflow_core/grad_context.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"

namespace oneflow::ops {
namespace {

// One size >= 0 per dimension of `x`.
absl::StatusOr<std::vector<int64_t>> Margins(const AttrMap& attrs, const std::string& name, const TensorType& x) {
  OF_ASSIGN_OR_RETURN(const Shape sizes, ShapeAttr(attrs, name));
  if (sizes.rank() == x.shape.rank()) return sizes.dims();
  return absl::InvalidArgumentError(absl::StrCat("attribute '", name, "' is ", sizes.ToString(),
                                                 " but must have one size per dimension of x, which is ",
                                                 x.ToString()));
}

absl::StatusOr<Types> InferPad(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x"}}));
  const TensorType& x = c.inputs[0];
  OF_ASSIGN_OR_RETURN(const std::vector<int64_t> before, Margins(c.attrs, "before", x));
  OF_ASSIGN_OR_RETURN(const std::vector<int64_t> after, Margins(c.attrs, "after", x));
  OF_ASSIGN_OR_RETURN(const double value, NumberAttrOr(c.attrs, "value", 0));
  if (!IsFloating(x.dtype) && value != std::floor(value)) {
    return absl::InvalidArgumentError(absl::StrCat("attribute 'value' is ", value, " but x is ", x.ToString()));
  }
  std::vector<int64_t> sizes = x.shape.dims();
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (__builtin_add_overflow(sizes[i], before[i], &sizes[i]) ||
        __builtin_add_overflow(sizes[i], after[i], &sizes[i])) {
      return absl::InvalidArgumentError(absl::StrCat("the result has more than 2^63 elements along dimension ", i));
    }
  }
  return Outputs({{x.dtype, Shape(std::move(sizes))}});
}

absl::Status PadGrad(GradContext& c) {
  const Shape x = c.input(0).shape();  // a copy: adding nodes moves the types of the graph
  const std::vector<int64_t> before = c.attrs().Ints("before");
  Tensor dx = *c.output_grad(0);
  for (int d = 0; d < x.rank(); ++d) {
    if (dx.shape()[d] == x[d]) continue;
    dx = c.Call1("slice", {dx}, {{"axis", int64_t{d}}, {"start", before[d]}, {"size", x[d]}});
  }
  c.SetInputGrad(0, dx);
  return absl::OkStatus();
}

// Around the pixels only.
std::vector<int> BlocksOfPad(absl::Span<const TensorType> inputs, absl::Span<const TensorType> outputs,
                             const AttrMap& attrs) {
  const Shape &x = inputs[0].shape, &y = outputs[0].shape;
  if (x.rank() == 4 && x[0] == y[0] && x[1] == y[1]) return BlocksByChannel(inputs, outputs, attrs);
  return {-1, -1};
}

}  // namespace

void AddPadOps(OpRegistry& registry) {
  registry.Add(
      {.name = "pad", .infer = InferPad, .grad = PadGrad, .precision = Precision::kFollow, .blocks = BlocksOfPad});
}

}  // namespace oneflow::ops
