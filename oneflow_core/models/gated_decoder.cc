#include "oneflow_core/models/gated_decoder.h"

#include "oneflow_core/functional.h"
#include "oneflow_core/nn/embedding.h"
#include "oneflow_core/nn/gated_mlp.h"
#include "oneflow_core/nn/layers.h"
#include "oneflow_core/nn/linear.h"
#include "oneflow_core/nn/norm.h"

namespace oneflow {
namespace {

Tensor DecoderLogits(const AttrMap& fields, const AttentionOf& attention, const Tensor& tokens) {
  if (!tokens.valid()) return Tensor();
  GraphBuilder& b = *tokens.builder();
  const double epsilon = fields.Double("epsilon");
  const nn::EmbeddingOptions table = {.rows = fields.Int("vocabulary"), .width = fields.Int("width")};
  const auto block = [&](const Tensor& input, int64_t) {
    const Tensor x = Add(input, attention(nn::RmsNorm(input, "norm1", epsilon)));
    return Add(x, nn::GatedMlp(nn::RmsNorm(x, "norm2", epsilon), "mlp", {.hidden = fields.Int("hidden")}));
  };
  Tensor x = nn::Layers(nn::Embedding(tokens, "wte", table), fields.Int("layers"), block);
  x = nn::RmsNorm(x, "norm_f", epsilon);
  if (fields.Bool("tied_embedding")) return MatMul(x, nn::EmbeddingTable(b, "wte", table), /*transpose_b=*/true);
  return nn::Linear(x, "head", {.width = table.rows, .bias = false});
}

}  // namespace

absl::StatusOr<std::vector<Graph>> GatedDecoderProgram(const std::string& name, const AttentionOf& attention,
                                                       const ModelRequest& request, const OpRegistry& ops) {
  const AttrMap& fields = request.fields;
  const LanguageModel model = {
      .name = name,
      .vocabulary = fields.Int("vocabulary"),
      .context = fields.Int("context"),
      .logits = [&](const Tensor& tokens, bool) { return DecoderLogits(fields, attention, tokens); }};
  return LanguageModelProgram(model, TextDataOf(request.data), request.batches, request.continuation, ops);
}

}  // namespace oneflow
