#include "oneflow_core/models/gpt.h"

#include <algorithm>
#include <cmath>

#include "oneflow_core/functional.h"
#include "oneflow_core/models/model.h"
#include "oneflow_core/nn/attention.h"
#include "oneflow_core/nn/embedding.h"
#include "oneflow_core/nn/initial.h"
#include "oneflow_core/nn/layer_norm.h"
#include "oneflow_core/nn/linear.h"
#include "oneflow_core/nn/mlp.h"

namespace oneflow {
namespace {

constexpr double kStandardDeviation = 0.02;  // of GPT-2's initial weights

absl::Status Check(const GptConfig& config, const TextData& data, const BatchSizes& batches) {
  OF_RETURN_IF_ERROR(CheckSize("gpt", "vocabulary", config.vocabulary));
  OF_RETURN_IF_ERROR(CheckSize("gpt", "layers", config.layers, kMaxLayers));
  OF_RETURN_IF_ERROR(CheckSize("gpt", "width", config.width));
  OF_RETURN_IF_ERROR(CheckSize("gpt", "heads", config.heads));
  OF_RETURN_IF_ERROR(CheckSize("gpt", "context", config.context));
  OF_RETURN_IF_ERROR(CheckFraction("gpt", "dropout", config.dropout));
  OF_RETURN_IF_ERROR(CheckFraction("gpt", "validation_fraction", data.validation_fraction));
  if (config.width % config.heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("gpt: width ", config.width, " is not a multiple of heads ", config.heads));
  }
  if (!config.stages.empty() && static_cast<int64_t>(config.stages.size()) != config.layers) {
    return absl::InvalidArgumentError(
        absl::StrCat("gpt: there are stages of ", config.stages.size(), " layers, but ", config.layers, " layers"));
  }
  return CheckBatches("gpt", batches);
}

// With its gradient.
Tensor OnStream(const GptConfig& config, const Tensor& x) {
  return config.stream.has_value() ? x.ToWithGradient({{"tp", *config.stream}}) : x;
}

// What layers read is whole, so that their weights need not be gathered.
Tensor Normalized(const GptConfig& config, const Tensor& x, absl::string_view name) {
  const Tensor y = nn::LayerNorm(x, name);
  if (!config.stream.has_value()) return y;
  const SbpHint whole = {{"tp", Sbp::Broadcast()}};
  return config.stream->is_broadcast() ? y.ToWithGradient(whole) : y.To(whole);
}

Tensor Block(const GptConfig& config, const Tensor& input, double dropout) {
  const std::string init = nn::Normal(kStandardDeviation);
  const std::string residual_init =
      nn::Normal(kStandardDeviation / std::sqrt(2.0 * static_cast<double>(config.layers)));
  const Tensor attended = nn::CausalSelfAttention(Normalized(config, input, "ln1"), "attn",
                                                  {.heads = config.heads,
                                                   .init = init,
                                                   .output_init = residual_init,
                                                   .says_how_it_lies = config.stream.has_value(),
                                                   .kept_scores = config.kept_scores,
                                                   .dropout = dropout});
  const Tensor x = OnStream(config, Add(input, Dropout(OnStream(config, attended), dropout)));
  const Tensor processed = nn::Mlp(Normalized(config, x, "ln2"), "mlp",
                                   {.hidden = 4 * config.width,
                                    .init = init,
                                    .output_init = residual_init,
                                    .says_how_it_lies = config.stream.has_value()});
  return OnStream(config, Add(x, Dropout(OnStream(config, processed), dropout)));
}

nn::EmbeddingOptions TokenTable(const GptConfig& config) {
  return {.rows = config.vocabulary, .width = config.width, .init = nn::Normal(kStandardDeviation)};
}

Tensor Head(const GptConfig& config, const Tensor& x) {
  if (!x.valid()) return Tensor();
  if (!config.tied_embedding) {
    return nn::Linear(x, "head", {.width = config.vocabulary, .bias = false, .init = nn::Normal(kStandardDeviation)});
  }
  return MatMul(x, nn::EmbeddingTable(*x.builder(), "wte", TokenTable(config)), /*transpose_b=*/true);
}

Tensor MeanLoss(const GptConfig& config, const Batch& samples, bool training) {
  const Tensor logits = GptLogits(config, samples.inputs, training);
  return ReduceMean(SoftmaxCrossEntropy(logits, samples.labels), {0, 1});
}

absl::StatusOr<Graph> TrainGraph(const GptConfig& config, const TextData& data, int64_t batch, const OpRegistry& ops) {
  GraphBuilder b(ops, "train");
  const Batch samples = ReadTextBatch(b, data, DataSplit::kTrain, batch, config.context, config.vocabulary);
  const Tensor loss = MeanLoss(config, samples, /*training=*/true);
  b.SetLoss(loss);
  Fetch(loss, "loss");
  return b.Finish();
}

absl::StatusOr<Graph> EvaluateGraph(const GptConfig& config, const TextData& data, int64_t batch,
                                    const OpRegistry& ops) {
  GraphBuilder b(ops, "evaluate");
  const Batch samples = ReadTextBatch(b, data, DataSplit::kValidation, batch, config.context, config.vocabulary);
  Fetch(MeanLoss(config, samples, /*training=*/false), "loss");
  return b.Finish();
}

// The last `context` bytes of the prompt as tokens.
absl::StatusOr<std::vector<int64_t>> PromptTokens(const GptConfig& config, const std::string& prompt) {
  const std::string text = prompt.empty() ? "\n" : prompt;
  const size_t begin = text.size() - std::min(text.size(), static_cast<size_t>(config.context));
  std::vector<int64_t> tokens;
  for (size_t i = begin; i < text.size(); ++i) {
    tokens.push_back(static_cast<unsigned char>(text[i]));
    if (tokens.back() >= config.vocabulary) {
      return absl::InvalidArgumentError(absl::StrCat("gpt: byte ", i, " of the prompt is ", tokens.back(),
                                                     ", but the vocabulary is ", config.vocabulary));
    }
  }
  return tokens;
}

absl::StatusOr<Graph> GenerateGraph(const GptConfig& config, const GptGeneration& generation, const OpRegistry& ops) {
  if (!(generation.temperature >= 0) || std::isinf(generation.temperature)) {
    return absl::InvalidArgumentError(
        absl::StrCat("gpt: temperature is ", generation.temperature, ", but must be at least 0 and finite"));
  }
  OF_ASSIGN_OR_RETURN(std::vector<int64_t> prompt, PromptTokens(config, generation.prompt));
  const std::string length_init = nn::List({static_cast<int64_t>(prompt.size())});
  prompt.resize(config.context, 0);  // what lies behind the length is not looked at

  GraphBuilder b(ops, "generate");
  const Tensor tokens =
      b.Variable("generate/tokens", {DType::kInt32, {1, config.context}}, nn::List(prompt), {}, /*trainable=*/false);
  const Tensor length = b.Variable("generate/length", {DType::kInt32, {}}, length_init, {}, /*trainable=*/false);
  const Tensor logits = GptLogits(config, tokens, /*training=*/false);
  const Tensor token = SampleToken(logits, length, generation.temperature);
  AppendToken(tokens, length, token);
  Fetch(token, "token");
  return b.Finish();
}

absl::StatusOr<std::vector<Graph>> BuildGpt(const ModelRequest& request, const OpRegistry& ops) {
  const AttrMap& fields = request.fields;
  const GptConfig config = {.vocabulary = fields.Int("vocabulary"),
                            .layers = fields.Int("layers"),
                            .width = fields.Int("width"),
                            .heads = fields.Int("heads"),
                            .context = fields.Int("context"),
                            .dropout = fields.Double("dropout"),
                            .tied_embedding = fields.Bool("tied_embedding")};
  std::optional<GptGeneration> generation;
  if (request.continuation.has_value()) {
    generation = GptGeneration{request.continuation->prompt, request.continuation->temperature};
  }
  return GptProgram(config, TextDataOf(request.data), request.batches, generation, ops);
}

std::optional<FieldComplaint> CheckGpt(const AttrMap& fields) {
  const int64_t width = fields.Int("width"), heads = fields.Int("heads");
  if (width % heads == 0) return std::nullopt;
  return FieldComplaint{"heads", absl::StrCat("width ", width, " is not a multiple of ", heads, " heads")};
}

}  // namespace

ModelDef GptModel() {
  return {.name = "gpt",
          .reads = {"text"},
          .build = BuildGpt,
          .check = CheckGpt,
          .generates = true,
          .small = "vocabulary: 128 layers: 2 width: 24 heads: 4 context: 12 dropout: 0.1"};
}

Tensor GptLogits(const GptConfig& config, const Tensor& tokens, bool training) {
  if (!tokens.valid()) return Tensor();
  GraphBuilder& b = *tokens.builder();
  const double dropout = training ? config.dropout : 0;
  const Tensor positions = nn::EmbeddingTable(
      b, "wpe", {.rows = config.context, .width = config.width, .init = nn::Normal(kStandardDeviation)});
  Tensor x = OnStream(config, Dropout(Add(nn::Embedding(tokens, "wte", TokenTable(config)), positions), dropout));
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const GraphBuilder::Scope scope(b, absl::StrCat("h", layer));
    const GraphBuilder::Segment segment(b, "layers");
    std::optional<GraphBuilder::PlacementScope> stage;
    if (!config.stages.empty()) stage.emplace(b, PlacementHint{{"pp", config.stages[layer]}});
    x = Block(config, x, dropout);
  }
  return Head(config, Normalized(config, x, "ln_f"));
}

absl::StatusOr<std::vector<Graph>> GptProgram(const GptConfig& config, const TextData& data, const BatchSizes& batches,
                                              const std::optional<GptGeneration>& generation, const OpRegistry& ops) {
  OF_RETURN_IF_ERROR(Check(config, data, batches));
  std::vector<Graph> program;
  OF_ASSIGN_OR_RETURN(Graph train, TrainGraph(config, data, batches.train, ops));
  program.push_back(std::move(train));
  if (batches.evaluate > 0) {
    OF_ASSIGN_OR_RETURN(Graph evaluate, EvaluateGraph(config, data, batches.evaluate, ops));
    program.push_back(std::move(evaluate));
  }
  if (generation.has_value()) {
    OF_ASSIGN_OR_RETURN(Graph generate, GenerateGraph(config, *generation, ops));
    program.push_back(std::move(generate));
  }
  return program;
}

}  // namespace oneflow
