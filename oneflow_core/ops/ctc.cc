// ctc_loss (Graves et al., "Connectionist Temporal Classification", 2006): of each sample -log of the sum over all
// sequences of classes, one a step, that become its labels once repetitions are merged and then blanks, class 0, are
// taken out; the probability of a sequence is the product of those of its steps. It is infinite where there is no such
// sequence. The gradient walks through all sequences forward and back again: nothing is kept for it.
#include "oneflow_core/grad_context.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"

namespace oneflow::ops {
namespace {

// Checks log_probs and what says how they are to be labelled, from input `first` on.
absl::Status CheckSamples(const InferContext& c, size_t first) {
  const TensorType& log_probs = c.inputs[first];
  OF_RETURN_IF_ERROR(BoolAttrOr(c.attrs, "zero_infinity", false).status());
  if (log_probs.shape[2] < 1) {
    return absl::InvalidArgumentError(absl::StrCat("log_probs is ", log_probs.ToString(), " but must have a class"));
  }
  const std::string because = absl::StrCat("log_probs, which is ", log_probs.ToString(), ",");
  const int64_t samples = log_probs.shape[0];
  OF_RETURN_IF_ERROR(
      CheckType("labels", c.inputs[first + 1], {DType::kInt32, {samples, c.inputs[first + 1].shape[1]}}, because));
  OF_RETURN_IF_ERROR(CheckType("input_lengths", c.inputs[first + 2], {DType::kInt32, {samples}}, because));
  return CheckType("label_lengths", c.inputs[first + 3], {DType::kInt32, {samples}}, because);
}

const Operand kSamples[] = {{"log_probs", kFloat32, Exactly(3)},
                            {"labels", kIndex, Exactly(2)},
                            {"input_lengths", kIndex, Exactly(1)},
                            {"label_lengths", kIndex, Exactly(1)}};

absl::StatusOr<Types> InferCtcLoss(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, kSamples));
  OF_RETURN_IF_ERROR(CheckSamples(c, 0));
  return Outputs({{DType::kFloat32, {c.inputs[0].shape[0]}}});
}

absl::Status CtcLossGrad(GradContext& c) {
  c.SetInputGrad(
      0, c.Call1("ctc_loss_grad", {*c.output_grad(0), c.input(0), c.input(1), c.input(2), c.input(3)}, c.attrs()));
  return absl::OkStatus();
}

absl::StatusOr<Types> InferCtcLossGrad(const InferContext& c) {
  std::vector<Operand> operands = {{"dloss", kFloat32, Exactly(1)}};
  operands.insert(operands.end(), std::begin(kSamples), std::end(kSamples));
  OF_RETURN_IF_ERROR(CheckOperands(c, operands));
  OF_RETURN_IF_ERROR(CheckSamples(c, 1));
  OF_RETURN_IF_ERROR(CheckType("dloss", c.inputs[0], {DType::kFloat32, {c.inputs[1].shape[0]}},
                               absl::StrCat("log_probs, which is ", c.inputs[1].ToString(), ",")));
  return Outputs({c.inputs[1]});
}

// About thirty for each state of each step, of 2 s + 1 states.
double StateFlops(const TensorType& log_probs, const TensorType& labels) {
  return 30.0 * static_cast<double>(log_probs.shape[0] * log_probs.shape[1]) *
         static_cast<double>(2 * labels.shape[1] + 1);
}

}  // namespace

void AddCtcOps(OpRegistry& registry) {
  registry.Add({.name = "ctc_loss",
                .rule = "btc,bs,b,b->b; whole t c s",
                .infer = InferCtcLoss,
                .grad = CtcLossGrad,
                .flops = [](absl::Span<const TensorType> inputs, absl::Span<const TensorType>, const AttrMap&) {
                  return StateFlops(inputs[0], inputs[1]);
                }});
  registry.Add({.name = "ctc_loss_grad",
                .rule = "b,btc,bs,b,b->btc; whole t c s; linear 0",
                .infer = InferCtcLossGrad,
                .flops = [](absl::Span<const TensorType> inputs, absl::Span<const TensorType>, const AttrMap&) {
                  return 3 * StateFlops(inputs[1], inputs[2]);
                }});
}

}  // namespace oneflow::ops
