// accumulate_matmul_wgrad: matmul_wgrad, added to what the micro-batches of a step before this one gave. The compiler
// makes it of the two; models do not name it and no gradient flows through it.
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"

namespace oneflow::ops {
namespace {

const OpDef& Wgrad() {
  static const OpRegistry* const ops = [] {
    auto* const made = new OpRegistry;
    AddMatmulOps(*made);
    return made;
  }();
  return *ops->Find("matmul_wgrad");
}

// A sum over micro-batches is not rounded in between, and its addends are whole.
absl::StatusOr<Types> InferAccumulateWgrad(const InferContext& c) {
  OF_ASSIGN_OR_RETURN(Types outputs, Wgrad().infer(c));
  for (const TensorType& type : c.inputs) {
    if (type.is_ragged()) return absl::InvalidArgumentError(absl::StrCat(type.ToString(), " must not be ragged"));
  }
  OF_RETURN_IF_ERROR(CheckType("dw", outputs[0], {DType::kFloat32, outputs[0].shape}, "a sum over micro-batches"));
  return outputs;
}

}  // namespace

void AddAccumulateMatmulOps(OpRegistry& registry) {
  registry.Add({.name = "accumulate_matmul_wgrad",
                .kind = OpKind::kAccumulate,
                .rule = Wgrad().rule,
                .rule_for = Wgrad().rule_for,
                .infer = InferAccumulateWgrad,
                .flops = Wgrad().flops,
                .precision = Wgrad().precision});
}

}  // namespace oneflow::ops
