// Gemma 2 and the text model of Gemma 3 on bytes (Gemma Team, "Gemma 2", 2024; "Gemma 3", 2025): a decoder-only
// transformer.
//
//   tokens [n,t] ──► sqrt(width) wte[tokens] ──► blocks h0, h1, ... ──► norm ──► product with wte, bounded
//                ──► logits [n,t,vocabulary]
//
//   block:  x += norm(attention(norm(x)));  x += norm(gated mlp(norm(x)))
//
// Norms are RMS norms times 1 + weight, the MLP's gate is a tanh GELU, and all but every `window_every`-th layer see a
// window alone. Scores are bounded between heads' products and their masks; such scores are all in memory. Of Gemma 3
// they are not bounded, but queries and keys are normalised, and layers with a window turn them by a theta of their
// own. Matrices start as normal with standard deviation 0.02, the norms' weights as zeros. Layouts are said by the
// layers (nn/).
//
// Variables: "wte/weight", "h0/norm1/weight", "h0/attn/{q,k,v,o}/weight", "h0/attn/{q_norm,k_norm}/weight",
// "h0/norm1_out/weight", "h0/norm2/weight", "h0/mlp/{gate,up,down}/weight", "h0/norm2_out/weight", "norm_f/weight".
#include <cmath>

#include "oneflow_core/composed.h"
#include "oneflow_core/models/language_model.h"
#include "oneflow_core/models/model.h"
#include "oneflow_core/models/rotary_heads.h"
#include "oneflow_core/nn/attention.h"
#include "oneflow_core/nn/embedding.h"
#include "oneflow_core/nn/gated_mlp.h"
#include "oneflow_core/nn/layers.h"
#include "oneflow_core/nn/norm.h"

namespace oneflow {
namespace {

class Gemma {
 public:
  explicit Gemma(const AttrMap& fields) : fields_(fields) {}

  Tensor Logits(const Tensor& tokens) const {
    if (!tokens.valid()) return Tensor();
    const int64_t width = fields_.Int("width");
    const nn::EmbeddingOptions table = {.rows = fields_.Int("vocabulary"), .width = width};
    Tensor x = Scale(nn::Embedding(tokens, "wte", table), std::sqrt(static_cast<double>(width)));
    x = nn::Layers(x, fields_.Int("layers"), [&](const Tensor& y, int64_t layer) { return Block(y, layer); });
    const Tensor head = nn::EmbeddingTable(*tokens.builder(), "wte", table);
    return SoftCap(MatMul(Norm(x, "norm_f"), head, /*transpose_b=*/true), fields_.Double("logit_cap"));
  }

 private:
  Tensor Norm(const Tensor& x, absl::string_view name) const {
    return nn::OffsetRmsNorm(x, name, fields_.Double("epsilon"));
  }

  Tensor Block(const Tensor& input, int64_t layer) const {
    const Tensor attended = nn::SelfAttention(Norm(input, "norm1"), "attn", Attention(layer));
    const Tensor x = Add(input, Norm(attended, "norm1_out"));
    const Tensor processed = nn::GatedMlp(Norm(x, "norm2"), "mlp", {.hidden = fields_.Int("hidden"), .gelu = true});
    return Add(x, Norm(processed, "norm2_out"));
  }

  nn::AttentionOptions Attention(int64_t layer) const {
    const bool sees_all = (layer + 1) % fields_.Int("window_every") == 0;
    nn::AttentionOptions attention = {.heads = fields_.Int("heads"),
                                      .kv_heads = KvHeads(fields_),
                                      .head_width = fields_.Int("head_width"),
                                      .window = sees_all ? 0 : fields_.Int("window"),
                                      .qkv_bias = false,
                                      .output_bias = false,
                                      .offset_norms = true,
                                      .rotary = RotaryAttrs(fields_),
                                      .soft_cap = fields_.Double("score_cap")};
    if (fields_.Bool("qk_norm")) attention.qk_norm = fields_.Double("epsilon");
    const double theta = fields_.Double("rope_theta_of_windows"), query_scale = fields_.Double("query_scale");
    if (!sees_all && theta > 0) attention.rotary = AttrMap{{"theta", theta}};
    if (query_scale > 0) attention.scale = 1 / std::sqrt(query_scale);
    return attention;
  }

  const AttrMap& fields_;
};

absl::StatusOr<std::vector<Graph>> BuildGemma(const ModelRequest& request, const OpRegistry& ops) {
  const AttrMap& fields = request.fields;
  const LanguageModel model = {.name = "gemma",
                               .vocabulary = fields.Int("vocabulary"),
                               .context = fields.Int("context"),
                               .logits = [&](const Tensor& tokens, bool) { return Gemma(fields).Logits(tokens); }};
  return LanguageModelProgram(model, TextDataOf(request.data), request.batches, request.continuation, ops);
}

}  // namespace

ModelDef GemmaModel() {
  return OfText("gemma", BuildGemma, CheckRotaryHeads,
                "vocabulary: 128 layers: 2 width: 24 heads: 4 kv_heads: 2 head_width: 8 hidden: 40 context: 12 "
                "query_scale: 5 score_cap: 5 logit_cap: 8 window: 7 qk_norm: true rope_theta_of_windows: 100");
}

}  // namespace oneflow
