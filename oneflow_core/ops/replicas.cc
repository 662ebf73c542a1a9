// Ops that compare copies while a job runs. They speak of ranks, not of logical tensors, and only the compiler adds
// them: replica_digest gives every rank of the mesh one number for what it holds, assert_replicas passes x on where the
// numbers agree.
#include "oneflow_core/builder.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"

namespace oneflow::ops {
namespace {

absl::StatusOr<Types> InferDigest(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x"}}));
  OF_ASSIGN_OR_RETURN(const Shape mesh, ShapeAttr(c.attrs, "shape"));
  return Outputs({{DType::kInt32, mesh}});
}

absl::StatusOr<Types> InferAssert(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x"}, {"digests", kIndex}}));
  return Outputs({c.inputs[0]});
}

}  // namespace

void AddReplicaOps(OpRegistry& registry) {
  registry.Add({.name = "replica_digest", .infer = InferDigest, .shard_attrs = ShapeOfShard, .flops = FlopsOfInput});
  registry.Add({.name = "assert_replicas", .infer = InferAssert, .looks_at_values = true, .in_place = {{0, 0}}});
}

}  // namespace oneflow::ops
