// slice: y = x[start : start + size] along `axis`. slice_grad puts dy back at `start` into zeros with `size` along
// `axis`; each is the other's gradient. flip: x in reverse along `axis`.
#include "oneflow_core/grad_context.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"

namespace oneflow::ops {
namespace {

Shape WithSize(const Shape& shape, int64_t axis, int64_t size) {
  std::vector<int64_t> sizes = shape.dims();
  sizes[axis] = size;
  return Shape(std::move(sizes));
}

// `size` elements from `start` along `axis`.
struct Part {
  int64_t axis, start, size;
};

absl::StatusOr<Part> PartOf(const InferContext& c) {
  Part part;
  OF_ASSIGN_OR_RETURN(part.axis, IntAttr(c.attrs, "axis", 0, c.inputs[0].shape.rank() - 1));
  OF_ASSIGN_OR_RETURN(part.start, IntAttr(c.attrs, "start", 0));
  OF_ASSIGN_OR_RETURN(part.size, IntAttr(c.attrs, "size", 0));
  return part;
}

absl::StatusOr<Types> InferSlice(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kAny, AtLeast(1)}}));
  const TensorType& x = c.inputs[0];
  OF_ASSIGN_OR_RETURN(const Part of, PartOf(c));
  const auto [axis, start, size] = of;
  const int64_t whole = x.shape[static_cast<int>(axis)];
  if (start > whole || size > whole - start) {
    return absl::InvalidArgumentError(
        absl::StrCat(size, " from ", start, " is outside dimension ", axis, " of x, which is ", x.ToString()));
  }
  return Outputs({{x.dtype, WithSize(x.shape, axis, size)}});
}

// Both have the other's attributes, but for the size, which is that of the other's output.
absl::Status GradByOther(GradContext& c, const char* other) {
  AttrMap attrs = c.attrs();
  attrs.Set("size", c.input(0).shape()[static_cast<int>(attrs.Int("axis"))]);
  c.SetInputGrad(0, c.Call1(other, {*c.output_grad(0)}, std::move(attrs)));
  return absl::OkStatus();
}

absl::Status SliceGrad(GradContext& c) { return GradByOther(c, "slice_grad"); }

absl::StatusOr<Types> InferSliceGrad(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"dy", kNumber, AtLeast(1)}}));
  const TensorType& dy = c.inputs[0];
  OF_ASSIGN_OR_RETURN(const Part of, PartOf(c));
  const auto [axis, start, size] = of;
  const int64_t part = dy.shape[static_cast<int>(axis)];
  if (part > size || start > size - part) {
    return absl::InvalidArgumentError(
        absl::StrCat("dy is ", dy.ToString(), "; at ", start, " of dimension ", axis, " it does not fit into ", size));
  }
  return Outputs({{dy.dtype, WithSize(dy.shape, axis, size)}});
}

absl::StatusOr<Types> InferFlip(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kAny, AtLeast(1)}}));
  OF_RETURN_IF_ERROR(IntAttr(c.attrs, "axis", 0, c.inputs[0].shape.rank() - 1).status());
  return Outputs({c.inputs[0]});
}

absl::Status FlipGrad(GradContext& c) {
  c.SetInputGrad(0, c.Call1("flip", {*c.output_grad(0)}, c.attrs()));
  return absl::OkStatus();
}

absl::Status SliceGradGrad(GradContext& c) { return GradByOther(c, "slice"); }

// Of the pixels only.
std::vector<int> BlocksOfSlice(absl::Span<const TensorType> inputs, absl::Span<const TensorType> outputs,
                               const AttrMap& attrs) {
  return attrs.Int("axis") >= 2 ? BlocksByChannel(inputs, outputs, attrs) : std::vector<int>{-1, -1};
}

}  // namespace

void AddSliceOps(OpRegistry& registry) {
  registry.Add({.name = "flip", .infer = InferFlip, .grad = FlipGrad, .precision = Precision::kFollow});
  registry.Add({.name = "slice",
                .infer = InferSlice,
                .grad = SliceGrad,
                .precision = Precision::kFollow,
                .blocks = BlocksOfSlice});
  registry.Add({.name = "slice_grad", .infer = InferSliceGrad, .grad = SliceGradGrad, .precision = Precision::kFollow});
}

}  // namespace oneflow::ops
