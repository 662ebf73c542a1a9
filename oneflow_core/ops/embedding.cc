// embedding: y[..,h] = w[ids[..],h]; embedding_grad adds the rows of dy with one id into that row of dw, in index
// order and in f32. A table stays in the type it is kept in: of all its rows few are read, and those are rounded.
#include "oneflow_core/grad_context.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"

namespace oneflow::ops {
namespace {

absl::StatusOr<Types> InferEmbedding(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"w", kFloat, Exactly(2)}, {"ids", kIndex}}));
  std::vector<int64_t> sizes = c.inputs[1].shape.dims();
  sizes.push_back(c.inputs[0].shape[1]);
  OF_ASSIGN_OR_RETURN(const DType out, OutDType(c.attrs, c.inputs[0].dtype));
  return Outputs({{out, Shape(std::move(sizes))}});
}

absl::Status EmbeddingGrad(GradContext& c) {
  if (!c.needs_grad(0)) return absl::OkStatus();
  c.SetInputGrad(0, c.Call1("embedding_grad", {*c.arrived_grad(0), c.input(1)}, {{"rows", c.input(0).shape()[0]}}));
  return absl::OkStatus();
}

absl::StatusOr<Types> InferEmbeddingGrad(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"dy", kFloat, AtLeast(1)}, {"ids", kIndex}}));
  const TensorType &dy = c.inputs[0], &ids = c.inputs[1];
  std::vector<int64_t> positions = dy.shape.dims();
  const int64_t width = positions.back();
  positions.pop_back();
  OF_RETURN_IF_ERROR(CheckType("ids", ids, {DType::kInt32, Shape(std::move(positions))},
                               absl::StrCat("dy, which is ", dy.ToString(), ",")));
  OF_ASSIGN_OR_RETURN(const int64_t rows, IntAttr(c.attrs, "rows", 0));
  return Outputs({{DType::kFloat32, {rows, width}}});
}

// A shard of the table has its own rows of dw.
AttrMap EmbeddingGradOfShard(const AttrMap& attrs, absl::Span<const ShardType>, absl::Span<const ShardType> outputs) {
  return With(attrs, "rows", outputs[0].dims[0]);
}

}  // namespace

void AddEmbeddingOps(OpRegistry& registry) {
  registry.Add({.name = "embedding",
                .rule = "vh,...->...h; linear 0",
                .infer = InferEmbedding,
                .grad = EmbeddingGrad,
                .precision = Precision::kCompute,
                .full_inputs = {0},
                .has_out_dtype = true});
  registry.Add({.name = "embedding_grad",
                .rule = "...h,...->vh; linear 0",
                .infer = InferEmbeddingGrad,
                .shard_attrs = EmbeddingGradOfShard,
                .flops = FlopsOfInput,
                .precision = Precision::kFollow});
}

}  // namespace oneflow::ops
