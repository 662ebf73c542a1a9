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
#include "oneflow_core/nn/attention.h"
#include "oneflow_core/nn/embedding.h"
#include "oneflow_core/nn/gated_mlp.h"
#include "oneflow_core/nn/initial.h"
#include "oneflow_core/nn/linear.h"
#include "oneflow_core/nn/norm.h"

namespace oneflow {
namespace {

// Of every matrix.
std::string Initial() { return nn::Normal(0.02); }

// What the op `rotary` is told.
AttrMap RotaryAttrs(const AttrMap& fields) {
  AttrMap attrs = {{"theta", fields.Double("rope_theta")}};
  const std::string scaling = fields.String("rope_scaling");
  if (scaling == "none") return attrs;
  attrs.Set("scaling", scaling);
  attrs.Set("factor", fields.Double("rope_factor"));
  if (const int64_t context = fields.Int("rope_original_context"); context > 0) attrs.Set("original_context", context);
  if (scaling == "llama3") {
    attrs.Set("low_frequency", fields.Double("rope_low_frequency"));
    attrs.Set("high_frequency", fields.Double("rope_high_frequency"));
  }
  return attrs;
}

int64_t KvHeads(const AttrMap& fields) {
  return fields.Int("kv_heads") > 0 ? fields.Int("kv_heads") : fields.Int("heads");
}

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
  for (int64_t layer = 0; layer < fields.Int("layers"); ++layer) {
    const GraphBuilder::Scope scope(b, absl::StrCat("h", layer));
    const GraphBuilder::Segment segment(b, "layers");
    x = Block(fields, x);
  }
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
  const int64_t width = fields.Int("width"), heads = fields.Int("heads"), kv_heads = KvHeads(fields);
  const int64_t head_width = fields.Int("head_width");
  if (head_width == 0 && width % heads != 0) {
    return FieldComplaint{"heads", absl::StrCat("width ", width, " is not a multiple of ", heads, " heads")};
  }
  if (heads % kv_heads != 0) {
    return FieldComplaint{"kv_heads", absl::StrCat(heads, " heads are not a multiple of ", kv_heads, " kv_heads")};
  }
  const int64_t of_head = head_width > 0 ? head_width : width / heads;
  if (of_head % 2 != 0) {
    return FieldComplaint{head_width > 0 ? "head_width" : "heads",
                          absl::StrCat("heads have ", of_head, " columns, which cannot be turned in pairs")};
  }
  const double low = fields.Double("rope_low_frequency"), high = fields.Double("rope_high_frequency");
  if (!(low < high)) {
    return FieldComplaint{"rope_low_frequency", absl::StrCat(low, " is not below rope_high_frequency ", high)};
  }
  return std::nullopt;
}

}  // namespace

ModelDef LlamaModel() {
  return OfText("llama", BuildLlama, CheckLlama,
                "vocabulary: 128 layers: 2 width: 24 heads: 4 kv_heads: 2 hidden: 40 context: 12 qkv_bias: true "
                "qk_norm: true window: 7 tied_embedding: true");
}

}  // namespace oneflow
