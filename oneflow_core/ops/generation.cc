// Generating text one token per step: the next id is drawn from the logits of the last token, then appended to the
// window of tokens. The window and its length are variables.
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"

namespace oneflow::ops {
namespace {

// One sequence: dimension 0 is 1.
absl::Status CheckOneSequence(absl::string_view name, const TensorType& type) {
  if (type.shape[0] == 1 && type.shape[1] >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is ", type.ToString(), " but must be one sequence of at least one token"));
}

absl::StatusOr<Types> InferSampleToken(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"logits", kFloat, Exactly(3)}, {"length", kIndex, Exactly(0)}}));
  OF_RETURN_IF_ERROR(CheckOneSequence("logits", c.inputs[0]));
  if (c.inputs[0].shape[2] < 1) {
    return absl::InvalidArgumentError(absl::StrCat("logits is ", c.inputs[0].ToString(), " and has no class to draw"));
  }
  OF_ASSIGN_OR_RETURN(const double temperature, NumberAttr(c.attrs, "temperature"));
  if (!(temperature >= 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("attribute 'temperature' is ", temperature, " but must be at least 0"));
  }
  OF_RETURN_IF_ERROR(CheckKeyAttr(c.attrs));
  return Outputs({{DType::kInt32, {}}});
}

absl::StatusOr<Types> InferAppendToken(const InferContext& c) {
  OF_RETURN_IF_ERROR(
      CheckOperands(c, {{"tokens", kIndex, Exactly(2)}, {"length", kIndex, Exactly(0)}, {"id", kIndex, Exactly(0)}}));
  OF_RETURN_IF_ERROR(CheckOneSequence("tokens", c.inputs[0]));
  return Outputs({});
}

}  // namespace

void AddGenerationOps(OpRegistry& registry) {
  registry.Add({.name = "sample_token", .infer = InferSampleToken, .random = true});
  registry.Add({.name = "append_token", .infer = InferAppendToken, .mutates = {0, 1}});
}

}  // namespace oneflow::ops
