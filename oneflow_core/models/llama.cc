// Llama and its kin on bytes: a decoder-only transformer (Touvron et al. 2023; Jiang et al., "Mistral 7B", 2023; Qwen2
// and Qwen3).
//
//   tokens [n,t] ──► wte[tokens] ──► blocks h0, h1, ... ──► RMS norm ──► head ──► logits [n,t,vocabulary]
//
//   block:  x += attention(RMS norm(x));  x += gated mlp(RMS norm(x))
//
// Positions turn queries and keys (rotary.h), heads may share keys and values, nothing has a bias but, where the config
// says so, the projections to q, k and v. All matrices start as normal with standard deviation 0.02. Layouts are said
// by the layers (nn/), as those of gpt.h are.
//
// Variables: "wte/weight", "h0/norm1/weight", "h0/attn/{q,k,v,o}/weight", "h0/attn/{q,k,v}/bias",
// "h0/attn/{q_norm,k_norm}/weight", "h0/norm2/weight", "h0/mlp/{gate,up,down}/weight", "norm_f/weight", "head/weight".
#include "oneflow_core/functional.h"
#include "oneflow_core/models/language_model.h"
#include "oneflow_core/models/model.h"
#include "oneflow_core/models/rotary_heads.h"
#include "oneflow_core/nn/attention.h"
#include "oneflow_core/nn/embedding.h"
#include "oneflow_core/nn/gated_mlp.h"
#include "oneflow_core/nn/initial.h"
#include "oneflow_core/nn/layers.h"
#include "oneflow_core/nn/linear.h"
#include "oneflow_core/nn/norm.h"

namespace oneflow {
namespace {

// Of every matrix.
std::string Initial() { return nn::Normal(0.02); }

Tensor Block(const AttrMap& fields, const Tensor& input) {
  const std::string init = Initial();
  const double epsilon = fields.Double("epsilon");
  nn::AttentionOptions attention = {.heads = fields.Int("heads"),
                                    .kv_heads = KvHeads(fields),
                                    .head_width = fields.Int("head_width"),
                                    .window = fields.Int("window"),
                                    .qkv_bias = fields.Bool("qkv_bias"),
                                    .output_bias = false,
                                    .rotary = RotaryAttrs(fields),
                                    .init = init,
                                    .output_init = init};
  if (fields.Bool("qk_norm")) attention.qk_norm = epsilon;
  const Tensor x = Add(input, nn::SelfAttention(nn::RmsNorm(input, "norm1", epsilon), "attn", attention));
  return Add(x, nn::GatedMlp(nn::RmsNorm(x, "norm2", epsilon), "mlp",
                             {.hidden = fields.Int("hidden"), .init = init, .output_init = init}));
}

Tensor Logits(const AttrMap& fields, const Tensor& tokens) {
  if (!tokens.valid()) return Tensor();
  GraphBuilder& b = *tokens.builder();
  const nn::EmbeddingOptions table = {
      .rows = fields.Int("vocabulary"), .width = fields.Int("width"), .init = Initial()};
  Tensor x = nn::Embedding(tokens, "wte", table);
  x = nn::Layers(x, fields.Int("layers"), [&](const Tensor& y, int64_t) { return Block(fields, y); });
  x = nn::RmsNorm(x, "norm_f", fields.Double("epsilon"));
  if (fields.Bool("tied_embedding")) return MatMul(x, nn::EmbeddingTable(b, "wte", table), /*transpose_b=*/true);
  return nn::Linear(x, "head", {.width = table.rows, .bias = false, .init = table.init});
}

absl::StatusOr<std::vector<Graph>> BuildLlama(const ModelRequest& request, const OpRegistry& ops) {
  const AttrMap& fields = request.fields;
  const LanguageModel model = {.name = "llama",
                               .vocabulary = fields.Int("vocabulary"),
                               .context = fields.Int("context"),
                               .logits = [&](const Tensor& tokens, bool) { return Logits(fields, tokens); }};
  return LanguageModelProgram(model, TextDataOf(request.data), request.batches, request.continuation, ops);
}

std::optional<FieldComplaint> CheckLlama(const AttrMap& fields) {
  if (auto complaint = CheckRotaryHeads(fields)) return complaint;
  const double low = fields.Double("rope_low_frequency"), high = fields.Double("rope_high_frequency");
  if (low < high) return std::nullopt;
  return FieldComplaint{"rope_low_frequency", absl::StrCat(low, " is not below rope_high_frequency ", high)};
}

}  // namespace

ModelDef LlamaModel() {
  return OfText("llama", BuildLlama, CheckLlama,
                "vocabulary: 128 layers: 2 width: 24 heads: 4 kv_heads: 2 hidden: 40 context: 12 qkv_bias: true "
                "qk_norm: true window: 7 tied_embedding: true");
}

}  // namespace oneflow
