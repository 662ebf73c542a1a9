#include "oneflow_core/models/gpt.h"

#include <cmath>

#include "oneflow_core/functional.h"
#include "oneflow_core/models/language_model.h"
#include "oneflow_core/models/model.h"
#include "oneflow_core/nn/attention.h"
#include "oneflow_core/nn/embedding.h"
#include "oneflow_core/nn/initial.h"
#include "oneflow_core/nn/linear.h"
#include "oneflow_core/nn/mlp.h"
#include "oneflow_core/nn/norm.h"

namespace oneflow {
namespace {

constexpr double kStandardDeviation = 0.02;  // of GPT-2's initial weights

absl::Status Check(const GptConfig& config) {
  OF_RETURN_IF_ERROR(CheckSize("gpt", "vocabulary", config.vocabulary));
  OF_RETURN_IF_ERROR(CheckSize("gpt", "layers", config.layers, kMaxLayers));
  OF_RETURN_IF_ERROR(CheckSize("gpt", "width", config.width));
  OF_RETURN_IF_ERROR(CheckSize("gpt", "heads", config.heads));
  OF_RETURN_IF_ERROR(CheckSize("gpt", "context", config.context));
  OF_RETURN_IF_ERROR(CheckFraction("gpt", "dropout", config.dropout));
  if (config.width % config.heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("gpt: width ", config.width, " is not a multiple of heads ", config.heads));
  }
  if (!config.stages.empty() && static_cast<int64_t>(config.stages.size()) != config.layers) {
    return absl::InvalidArgumentError(
        absl::StrCat("gpt: there are stages of ", config.stages.size(), " layers, but ", config.layers, " layers"));
  }
  return absl::OkStatus();
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
  const Tensor attended = nn::SelfAttention(Normalized(config, input, "ln1"), "attn",
                                            {.heads = config.heads,
                                             .init = init,
                                             .output_init = residual_init,
                                             .says_how_it_lies = config.stream.has_value(),
                                             .kept_scores = config.kept_scores,
                                             .dropout = config.kept_scores.has_value() ? dropout : 0});
  const Tensor x = OnStream(config, Add(input, Dropout(OnStream(config, attended), dropout)));
  const Tensor processed = nn::Mlp(Normalized(config, x, "ln2"), "mlp",
                                   {.hidden = 4 * config.width,
                                    .init = init,
                                    .output_init = residual_init,
                                    .gelu_tanh = config.gelu_tanh,
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

absl::StatusOr<std::vector<Graph>> BuildGpt(const ModelRequest& request, const OpRegistry& ops) {
  const AttrMap& fields = request.fields;
  const GptConfig config = {.vocabulary = fields.Int("vocabulary"),
                            .layers = fields.Int("layers"),
                            .width = fields.Int("width"),
                            .heads = fields.Int("heads"),
                            .context = fields.Int("context"),
                            .dropout = fields.Double("dropout"),
                            .tied_embedding = fields.Bool("tied_embedding"),
                            .gelu_tanh = fields.String("activation") == "gelu_tanh"};
  return GptProgram(config, TextDataOf(request.data), request.batches, request.continuation, ops);
}

std::optional<FieldComplaint> CheckGpt(const AttrMap& fields) {
  const int64_t width = fields.Int("width"), heads = fields.Int("heads");
  if (width % heads == 0) return std::nullopt;
  return FieldComplaint{"heads", absl::StrCat("width ", width, " is not a multiple of ", heads, " heads")};
}

}  // namespace

ModelDef GptModel() {
  return OfText("gpt", BuildGpt, CheckGpt, "vocabulary: 128 layers: 2 width: 24 heads: 4 context: 12 dropout: 0.1");
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
                                              const std::optional<Continuation>& generation, const OpRegistry& ops) {
  OF_RETURN_IF_ERROR(Check(config));
  const LanguageModel model = {
      .name = "gpt",
      .vocabulary = config.vocabulary,
      .context = config.context,
      .logits = [&](const Tensor& tokens, bool training) { return GptLogits(config, tokens, training); }};
  return LanguageModelProgram(model, data, batches, generation, ops);
}

}  // namespace oneflow
