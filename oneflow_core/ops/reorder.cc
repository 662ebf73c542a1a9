// reorder: the same elements in another memory layout (oneflow_core/memory_layout.h), which is said by the values and
// by nothing else. The compiler makes it (compiler/passes/channel_blocks.cc), where layouts and boxings are known;
// models do not name it and no gradient flows through it.
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"

namespace oneflow::ops {
namespace {

absl::StatusOr<Types> InferReorder(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kAny, Exactly(4)}}));
  return Outputs({c.inputs[0]});
}

std::vector<int> BlocksOfReorder(absl::Span<const TensorType>, absl::Span<const TensorType>, const AttrMap&) {
  return {0, 1};
}

}  // namespace

void AddReorderOps(OpRegistry& registry) {
  registry.Add({.name = "reorder",
                .rule = "...->...; linear 0",
                .infer = InferReorder,
                .precision = Precision::kFollow,
                .blocks = BlocksOfReorder});
}

}  // namespace oneflow::ops
