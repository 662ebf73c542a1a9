// A recurrent language model: an embedding, layers of LSTM or GRU, and a head.
//
//   tokens [n,t] ──► rows of wte ──► layers h0, h1, ... ──► product with head, or with wte ──► logits [n,t,vocabulary]
//
// States are zeros before the first token of a sample. Tables start as normal with standard deviation 0.02, the weights
// of the layers as nn/recurrence.h says. The embedding, the layers and, where `tied_embedding` says so, the head have
// one width.
//
// Variables: "wte/weight", "h0/l0/x/weight", "h0/l0/h/weight", ..., "h1/l0/...", "head/weight", "head/bias".
#include "oneflow_core/functional.h"
#include "oneflow_core/models/language_model.h"
#include "oneflow_core/models/model.h"
#include "oneflow_core/nn/embedding.h"
#include "oneflow_core/nn/linear.h"
#include "oneflow_core/nn/recurrence.h"

namespace oneflow {
namespace {

Tensor Logits(const AttrMap& fields, const Tensor& tokens, bool training) {
  if (!tokens.valid()) return Tensor();
  GraphBuilder& b = *tokens.builder();
  const nn::EmbeddingOptions table = {.rows = fields.Int("vocabulary"), .width = fields.Int("width")};
  const double dropout = training ? fields.Double("dropout") : 0;
  const nn::RecurrenceOptions options = {.width = table.width, .chunk = fields.Int("chunk")};
  Tensor x = nn::Embedding(tokens, "wte", table);
  for (int64_t layer = 0; layer < fields.Int("layers"); ++layer) {
    const std::string name = absl::StrCat("h", layer);
    const GraphBuilder::Segment segment(b, "layers");
    const Tensor input = Dropout(x, dropout);
    x = (fields.String("cell") == "gru" ? nn::Gru(input, name, options) : nn::Lstm(input, name, options)).y;
  }
  x = Dropout(x, dropout);
  if (!fields.Bool("tied_embedding")) return nn::Linear(x, "head", {.width = table.rows});
  return MatMul(x, nn::EmbeddingTable(b, "wte", table), /*transpose_b=*/true);
}

absl::StatusOr<std::vector<Graph>> BuildRecurrent(const ModelRequest& request, const OpRegistry& ops) {
  const AttrMap& fields = request.fields;
  const LanguageModel model = {
      .name = "recurrent",
      .vocabulary = fields.Int("vocabulary"),
      .context = fields.Int("context"),
      .logits = [&](const Tensor& tokens, bool training) { return Logits(fields, tokens, training); }};
  return LanguageModelProgram(model, TextDataOf(request.data), request.batches, request.continuation, ops);
}

}  // namespace

ModelDef RecurrentModel() {
  return OfText("recurrent", BuildRecurrent, nullptr,
                "vocabulary: 128 layers: 2 width: 24 context: 12 dropout: 0.1 chunk: 5 tied_embedding: true");
}

}  // namespace oneflow
