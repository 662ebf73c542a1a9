#include "oneflow_core/models/language_model.h"

#include <algorithm>
#include <cmath>

#include "oneflow_core/functional.h"
#include "oneflow_core/nn/initial.h"

namespace oneflow {
namespace {

Tensor MeanLoss(const LanguageModel& model, const Batch& samples, bool training) {
  if (model.loss != nullptr) return model.loss(samples, training);
  return ReduceMean(SoftmaxCrossEntropy(model.logits(samples.inputs, training), samples.labels), {0, 1});
}

absl::StatusOr<Graph> TrainGraph(const LanguageModel& model, const TextData& data, int64_t batch,
                                 const OpRegistry& ops) {
  GraphBuilder b(ops, "train");
  const Batch samples = ReadTextBatch(b, data, DataSplit::kTrain, batch, model.context, model.vocabulary);
  const Tensor loss = MeanLoss(model, samples, /*training=*/true);
  b.SetLoss(loss);
  Fetch(loss, "loss");
  return b.Finish();
}

absl::StatusOr<Graph> EvaluateGraph(const LanguageModel& model, const TextData& data, int64_t batch,
                                    const OpRegistry& ops) {
  GraphBuilder b(ops, "evaluate");
  const Batch samples = ReadTextBatch(b, data, DataSplit::kValidation, batch, model.context, model.vocabulary);
  Fetch(MeanLoss(model, samples, /*training=*/false), "loss");
  return b.Finish();
}

// The last `context` bytes of the prompt as tokens.
absl::StatusOr<std::vector<int64_t>> PromptTokens(const LanguageModel& model, const std::string& prompt) {
  const std::string text = prompt.empty() ? "\n" : prompt;
  const size_t begin = text.size() - std::min(text.size(), static_cast<size_t>(model.context));
  std::vector<int64_t> tokens;
  for (size_t i = begin; i < text.size(); ++i) {
    tokens.push_back(static_cast<unsigned char>(text[i]));
    if (tokens.back() >= model.vocabulary) {
      return absl::InvalidArgumentError(absl::StrCat(model.name, ": byte ", i, " of the prompt is ", tokens.back(),
                                                     ", but the vocabulary is ", model.vocabulary));
    }
  }
  return tokens;
}

absl::StatusOr<Graph> GenerateGraph(const LanguageModel& model, const Continuation& continuation,
                                    const OpRegistry& ops) {
  if (!(continuation.temperature >= 0) || std::isinf(continuation.temperature)) {
    return absl::InvalidArgumentError(
        absl::StrCat(model.name, ": temperature is ", continuation.temperature, ", but must be at least 0 and finite"));
  }
  OF_ASSIGN_OR_RETURN(std::vector<int64_t> prompt, PromptTokens(model, continuation.prompt));
  const std::string length_init = nn::List({static_cast<int64_t>(prompt.size())});
  prompt.resize(model.context, 0);  // what lies behind the length is not looked at

  GraphBuilder b(ops, "generate");
  const Tensor tokens =
      b.Variable("generate/tokens", {DType::kInt32, {1, model.context}}, nn::List(prompt), {}, /*trainable=*/false);
  const Tensor length = b.Variable("generate/length", {DType::kInt32, {}}, length_init, {}, /*trainable=*/false);
  const Tensor token = SampleToken(model.logits(tokens, /*training=*/false), length, continuation.temperature);
  AppendToken(tokens, length, token);
  Fetch(token, "token");
  return b.Finish();
}

}  // namespace

absl::StatusOr<std::vector<Graph>> LanguageModelProgram(const LanguageModel& model, const TextData& data,
                                                        const BatchSizes& batches,
                                                        const std::optional<Continuation>& continuation,
                                                        const OpRegistry& ops) {
  OF_RETURN_IF_ERROR(CheckFraction(model.name, "validation_fraction", data.validation_fraction));
  OF_RETURN_IF_ERROR(CheckBatches(model.name, batches));
  std::vector<Graph> program;
  OF_ASSIGN_OR_RETURN(Graph train, TrainGraph(model, data, batches.train, ops));
  program.push_back(std::move(train));
  if (batches.evaluate > 0) {
    OF_ASSIGN_OR_RETURN(Graph evaluate, EvaluateGraph(model, data, batches.evaluate, ops));
    program.push_back(std::move(evaluate));
  }
  if (continuation.has_value()) {
    OF_ASSIGN_OR_RETURN(Graph generate, GenerateGraph(model, *continuation, ops));
    program.push_back(std::move(generate));
  }
  return program;
}

}  // namespace oneflow
