// Elements by index, and sums into elements by index; in each pair one transposes the other and so is its gradient:
//
//   gather       y[p.., i.., q..] = x[p.., ids[i..], q..]    scatter_add  x[p.., ids[i..], q..] += dy[p.., i.., q..]
//   take_along   y[t.., j] = x[t.., ids[t.., j]]             put_along    x[t.., ids[t.., j]] += dy[t.., j]
//
// top_k finds such indices: those of the k largest of each row, largest first, of equal ones the lowest first.
#include <limits>

#include "oneflow_core/grad_context.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"

namespace oneflow::ops {
namespace {

// `sizes` with `count` of them, from position `at`, replaced.
Shape Replaced(std::vector<int64_t> sizes, int64_t at, int count, const std::vector<int64_t>& by) {
  sizes.erase(sizes.begin() + at, sizes.begin() + at + count);
  sizes.insert(sizes.begin() + at, by.begin(), by.end());
  return Shape(std::move(sizes));
}

absl::StatusOr<Types> InferGather(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kFloat, AtLeast(1)}, {"ids", kIndex}}));
  const TensorType& x = c.inputs[0];
  OF_ASSIGN_OR_RETURN(const int64_t axis, IntAttr(c.attrs, "axis", 0, x.shape.rank() - 1));
  return Outputs({{x.dtype, Replaced(x.shape.dims(), axis, 1, c.inputs[1].shape.dims())}});
}

absl::Status GatherGrad(GradContext& c) {
  if (!c.needs_grad(0)) return absl::OkStatus();
  AttrMap attrs = c.attrs();
  attrs.Set("size", c.input(0).shape()[static_cast<int>(attrs.Int("axis"))]);
  c.SetInputGrad(0, c.Call1("scatter_add", {*c.output_grad(0), c.input(1)}, std::move(attrs)));
  return absl::OkStatus();
}

absl::StatusOr<Types> InferScatterAdd(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"updates", kFloat}, {"ids", kIndex}}));
  const TensorType &updates = c.inputs[0], &ids = c.inputs[1];
  const int rank = ids.shape.rank();
  if (rank > updates.shape.rank()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "ids is ", ids.ToString(), ", which is more dimensions than updates, ", updates.ToString(), ", has"));
  }
  OF_ASSIGN_OR_RETURN(const int64_t axis, IntAttr(c.attrs, "axis", 0, updates.shape.rank() - rank));
  OF_ASSIGN_OR_RETURN(const int64_t size, IntAttr(c.attrs, "size", 0));
  const auto first = updates.shape.dims().begin() + axis;
  OF_RETURN_IF_ERROR(CheckType("ids", ids, {DType::kInt32, Shape(std::vector<int64_t>(first, first + rank))},
                               absl::StrCat("updates, which is ", updates.ToString(), ", with axis ", axis)));
  return Outputs({{updates.dtype, Replaced(updates.shape.dims(), axis, rank, {size})}});
}

AttrMap ScatterAddOfShard(const AttrMap& attrs, absl::Span<const ShardType>, absl::Span<const ShardType> outputs) {
  return With(attrs, "size", outputs[0].dims[static_cast<int>(attrs.Int("axis"))]);
}

absl::Status ScatterAddGrad(GradContext& c) {
  if (!c.needs_grad(0)) return absl::OkStatus();
  c.SetInputGrad(0, c.Call1("gather", {*c.output_grad(0), c.input(1)}, {{"axis", c.attrs().Int("axis")}}));
  return absl::OkStatus();
}

absl::StatusOr<Types> InferTakeAlong(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kFloat, AtLeast(1)}, {"ids", kIndex, AtLeast(1)}}));
  const TensorType &x = c.inputs[0], &ids = c.inputs[1];
  const int last = ids.shape.rank() - 1;
  if (x.shape.rank() != last + 1 || Replaced(x.shape.dims(), last, 1, {ids.shape[last]}) != ids.shape) {
    return absl::InvalidArgumentError(
        absl::StrCat("leading dimensions differ: x is ", x.ToString(), ", ids is ", ids.ToString()));
  }
  return Outputs({{x.dtype, ids.shape}});
}

absl::Status TakeAlongGrad(GradContext& c) {
  if (!c.needs_grad(0)) return absl::OkStatus();
  c.SetInputGrad(
      0, c.Call1("put_along", {*c.output_grad(0), c.input(1)}, {{"columns", c.input(0).shape().dims().back()}}));
  return absl::OkStatus();
}

absl::StatusOr<Types> InferPutAlong(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"dy", kFloat, AtLeast(1)}, {"ids", kIndex}}));
  const TensorType& dy = c.inputs[0];
  OF_RETURN_IF_ERROR(
      CheckType("ids", c.inputs[1], {DType::kInt32, dy.shape}, absl::StrCat("dy, which is ", dy.ToString(), ",")));
  OF_ASSIGN_OR_RETURN(const int64_t columns, IntAttr(c.attrs, "columns", 0));
  return Outputs({{dy.dtype, Replaced(dy.shape.dims(), dy.shape.rank() - 1, 1, {columns})}});
}

AttrMap PutAlongOfShard(const AttrMap& attrs, absl::Span<const ShardType>, absl::Span<const ShardType> outputs) {
  return With(attrs, "columns", outputs[0].dims.dims().back());
}

absl::Status PutAlongGrad(GradContext& c) {
  if (c.needs_grad(0)) c.SetInputGrad(0, c.Call1("take_along", {*c.output_grad(0), c.input(1)}));
  return absl::OkStatus();
}

absl::StatusOr<Types> InferTopK(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kFloat, AtLeast(1)}}));
  const TensorType& x = c.inputs[0];
  const int64_t columns = x.shape.dims().back();
  if (columns > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat("x is ", x.ToString(), ", more columns than an i32 can number"));
  }
  OF_ASSIGN_OR_RETURN(const int64_t k, IntAttr(c.attrs, "k", 0, columns));
  const Shape shape = Replaced(x.shape.dims(), x.shape.rank() - 1, 1, {k});
  return Outputs({{x.dtype, shape}, {DType::kInt32, shape}});
}

absl::Status TopKGrad(GradContext& c) {
  c.SetInputGrad(
      0, c.Call1("put_along", {*c.output_grad(0), c.output(1)}, {{"columns", c.input(0).shape().dims().back()}}));
  return absl::OkStatus();
}

}  // namespace

void AddIndexOps(OpRegistry& registry) {
  registry.Add({.name = "gather", .infer = InferGather, .grad = GatherGrad});
  registry.Add({.name = "scatter_add",
                .infer = InferScatterAdd,
                .shard_attrs = ScatterAddOfShard,
                .grad = ScatterAddGrad,
                .flops = FlopsOfInput});
  registry.Add(
      {.name = "take_along", .rule = "...c,...k->...k; linear 0", .infer = InferTakeAlong, .grad = TakeAlongGrad});
  registry.Add({.name = "put_along",
                .rule = "...k,...k->...c; linear 0",
                .infer = InferPutAlong,
                .shard_attrs = PutAlongOfShard,
                .grad = PutAlongGrad,
                .flops = FlopsOfInput});
  registry.Add({.name = "top_k",
                .rule = "...c->...k,...k; whole c k",
                .infer = InferTopK,
                .grad = TopKGrad,
                .flops = FlopsOfInput});
}

}  // namespace oneflow::ops
