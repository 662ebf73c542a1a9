// Where ragged values begin and end (oneflow_core/ragged.h), and the counts that say how far they are filled.
//
//   keep_rows(x, counts)    x, of whose rows only the first counts[g] count in group g
//   pad_rows(x, counts)     the ragged x with zeros behind its rows: each is the other's gradient
//   row_counts(ids)         counts[.., i] = how many of ids[.., t] are i: rows per expert, words per sentence
#include "oneflow_core/ragged.h"

#include "oneflow_core/grad_context.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"

namespace oneflow::ops {
namespace {

// `x` is as ragged as `marked`, whose counts are input 1.
absl::Status CheckCounts(const InferContext& c, const TensorType& marked) {
  return CheckType("counts", c.inputs[1], CountsType(marked), absl::StrCat("x as ", marked.ToString()));
}

absl::StatusOr<Types> InferKeepRows(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kAny, AtLeast(1)}, {"counts", kIndex}}));
  TensorType y = c.inputs[0];
  if (y.is_ragged()) return absl::InvalidArgumentError(absl::StrCat("x is ragged already: ", y.ToString()));
  y.ragged = c.inputs[1].shape.rank();
  if (y.ragged >= y.shape.rank()) {
    return absl::InvalidArgumentError(absl::StrCat("x is ", y.ToString(), " but counts, which is ",
                                                   c.inputs[1].ToString(), ", needs a dimension of rows behind ",
                                                   y.ragged));
  }
  OF_RETURN_IF_ERROR(CheckCounts(c, y));
  return Outputs({y});
}

absl::StatusOr<Types> InferPadRows(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kAny, AtLeast(1)}, {"counts", kIndex}}));
  if (!c.inputs[0].is_ragged()) {
    return absl::InvalidArgumentError(absl::StrCat("x is not ragged: ", c.inputs[0].ToString()));
  }
  OF_RETURN_IF_ERROR(CheckCounts(c, c.inputs[0]));
  return Outputs({Dense(c.inputs[0])});
}

absl::Status KeepRowsGrad(GradContext& c) {
  c.SetInputGrad(0, c.Call1("pad_rows", {*c.output_grad(0), c.input(1)}));
  return absl::OkStatus();
}

absl::Status PadRowsGrad(GradContext& c) {
  c.SetInputGrad(0, c.Call1("keep_rows", {*c.output_grad(0), c.input(1)}));
  return absl::OkStatus();
}

absl::StatusOr<Types> InferRowCounts(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"ids", kIndex, AtLeast(1)}}));
  OF_ASSIGN_OR_RETURN(const int64_t size, IntAttr(c.attrs, "size", c.of_shards ? 0 : 1));
  std::vector<int64_t> sizes = c.inputs[0].shape.dims();
  sizes.back() = size;
  return Outputs({{DType::kInt32, Shape(std::move(sizes))}});
}

AttrMap RowCountsOfShard(const AttrMap& attrs, absl::Span<const ShardType>, absl::Span<const ShardType> outputs) {
  return With(attrs, "size", outputs[0].dims.dims().back());
}

}  // namespace

void AddRaggedOps(OpRegistry& registry) {
  registry.Add({.name = "keep_rows",
                .infer = InferKeepRows,
                .grad = KeepRowsGrad,
                .in_place = {{0, 0}},
                .precision = Precision::kFollow,
                .ragged = RaggedUse::kOwn});
  registry.Add({.name = "pad_rows",
                .infer = InferPadRows,
                .grad = PadRowsGrad,
                .in_place = {{0, 0}},
                .precision = Precision::kFollow,
                .ragged = RaggedUse::kOwn});
  registry.Add({.name = "row_counts",
                .rule = "...t->...n",
                .infer = InferRowCounts,
                .shard_attrs = RowCountsOfShard,
                .flops = FlopsOfInput});
}

}  // namespace oneflow::ops
