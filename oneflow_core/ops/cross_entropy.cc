// softmax_cross_entropy: loss = lse - logits[label] with lse = log of the sum of exp(logits) over the last dimension;
// dlogits = dloss * (exp(logits - lse) - [class = label]). top1_correct: 1 where the largest logit is the label's, else
// 0.
#include "oneflow_core/grad_context.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"
#include "oneflow_core/ops/per_row.h"

namespace oneflow::ops {
namespace {

std::string Because(const TensorType& logits) { return absl::StrCat("logits, which is ", logits.ToString(), ","); }

absl::Status CheckLogitsAndLabels(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"logits", kFloat, AtLeast(1)}, {"labels", kIndex}}));
  const TensorType& logits = c.inputs[0];
  return CheckType("labels", c.inputs[1], OnePerRow(logits, DType::kInt32), Because(logits));
}

absl::StatusOr<Types> InferCrossEntropy(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckLogitsAndLabels(c));
  const TensorType per_row = OnePerRow(c.inputs[0]);
  return Outputs({per_row, per_row});
}

absl::Status CrossEntropyGrad(GradContext& c) {
  if (c.output_grad(1).has_value()) {
    return absl::UnimplementedError("no gradient flows through the lse of a softmax_cross_entropy");
  }
  c.SetInputGrad(0, c.Call1("softmax_cross_entropy_grad", {*c.output_grad(0), c.input(0), c.input(1), c.output(1)}));
  return absl::OkStatus();
}

absl::StatusOr<Types> InferCrossEntropyGrad(const InferContext& c) {
  OF_RETURN_IF_ERROR(
      CheckOperands(c, {{"dloss", kFloat32}, {"logits", kFloat, AtLeast(1)}, {"labels", kIndex}, {"lse", kFloat32}}));
  const TensorType& logits = c.inputs[1];
  OF_RETURN_IF_ERROR(CheckType("dloss", c.inputs[0], OnePerRow(logits), Because(logits)));
  OF_RETURN_IF_ERROR(CheckType("labels", c.inputs[2], OnePerRow(logits, DType::kInt32), Because(logits)));
  OF_RETURN_IF_ERROR(CheckType("lse", c.inputs[3], OnePerRow(logits), Because(logits)));
  return Outputs({logits});
}

absl::StatusOr<Types> InferTop1(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckLogitsAndLabels(c));
  return Outputs({OnePerRow(c.inputs[0])});
}

}  // namespace

void AddCrossEntropyOps(OpRegistry& registry) {
  registry.Add({.name = "softmax_cross_entropy",
                .rule = "...c,...->...,...; whole c",
                .infer = InferCrossEntropy,
                .grad = CrossEntropyGrad,
                .flops = FlopsOfInput});
  registry.Add({.name = "softmax_cross_entropy_grad",
                .rule = "...,...c,...,...->...c; linear 0",
                .infer = InferCrossEntropyGrad,
                .full_inputs = {0, 3}});
  registry.Add({.name = "top1_correct", .rule = "...c,...->...; whole c", .infer = InferTop1, .flops = FlopsOfInput});
}

}  // namespace oneflow::ops
