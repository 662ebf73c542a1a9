// Llama and its kin on bytes: a decoder-only transformer (Touvron et al. 2023; Jiang et al., "Mistral 7B", 2023; Qwen2
// and Qwen3). gated_decoder.h says what surrounds the attention.
//
// Positions turn queries and keys (rotary.h), heads may share keys and values, nothing has a bias but, where the config
// says so, the projections to q, k and v.
//
// Variables beside those of gated_decoder.h: "h0/attn/{q,k,v,o}/weight", "h0/attn/{q,k,v}/bias",
// "h0/attn/{q_norm,k_norm}/weight".
#include "oneflow_core/models/gated_decoder.h"
#include "oneflow_core/models/rotary_heads.h"
#include "oneflow_core/nn/attention.h"

namespace oneflow {
namespace {

Tensor LlamaAttention(const AttrMap& fields, const Tensor& x) {
  nn::AttentionOptions attention = {.heads = fields.Int("heads"),
                                    .kv_heads = KvHeads(fields),
                                    .head_width = fields.Int("head_width"),
                                    .window = fields.Int("window"),
                                    .qkv_bias = fields.Bool("qkv_bias"),
                                    .output_bias = false,
                                    .rotary = RotaryAttrs(fields)};
  if (fields.Bool("qk_norm")) attention.qk_norm = fields.Double("epsilon");
  return nn::SelfAttention(x, "attn", attention);
}

absl::StatusOr<std::vector<Graph>> BuildLlama(const ModelRequest& request, const OpRegistry& ops) {
  return GatedDecoderProgram(
      "llama", [&](const Tensor& x) { return LlamaAttention(request.fields, x); }, request, ops);
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
