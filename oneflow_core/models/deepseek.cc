// DeepSeek-V2 and -V3 on bytes, without experts (DeepSeek-AI, "DeepSeek-V2", 2024; "DeepSeek-V3", 2024): a decoder-only
// transformer with multi-head latent attention (nn/latent_attention.h). gated_decoder.h says what surrounds it.
//
// Pairs that positions turn are neighbours. Of YaRN's factor f, sines are multiplied by m(rope_magnitude) /
// m(rope_score_magnitude), where m(x) = 0.1 x ln f + 1, or by m(1) if either is 0; scores by m(rope_score_magnitude)^2.
//
// Variables beside those of gated_decoder.h: "h0/attn/{kv_down,kv_norm,kv_up,o}/weight", "h0/attn/q/weight" or
// "h0/attn/{q_down,q_norm,q_up}/weight".
#include <cmath>

#include "oneflow_core/models/gated_decoder.h"
#include "oneflow_core/models/rotary_heads.h"
#include "oneflow_core/nn/latent_attention.h"

namespace oneflow {
namespace {

Tensor DeepSeekAttention(const AttrMap& fields, const Tensor& x) {
  nn::LatentAttentionOptions attention = {.heads = fields.Int("heads"),
                                          .rank = fields.Int("kv_rank"),
                                          .query_rank = fields.Int("query_rank"),
                                          .plain_width = fields.Int("plain_width"),
                                          .rotary_width = fields.Int("rotary_width"),
                                          .value_width = fields.Int("value_width"),
                                          .rotary = RotaryAttrs(fields)};
  attention.rotary.Set("interleaved", true);
  if (fields.String("rope_scaling") == "yarn") {
    const double of_sines = fields.Double("rope_magnitude"), of_scores = fields.Double("rope_score_magnitude");
    const auto m = [&](double x) { return 0.1 * x * std::log(fields.Double("rope_factor")) + 1; };
    attention.rotary.Set("attention_factor", of_sines > 0 && of_scores > 0 ? m(of_sines) / m(of_scores) : m(1));
    attention.scale =
        m(of_scores) * m(of_scores) / std::sqrt(static_cast<double>(attention.plain_width + attention.rotary_width));
  }
  return nn::LatentAttention(x, "attn", attention);
}

absl::StatusOr<std::vector<Graph>> BuildDeepSeek(const ModelRequest& request, const OpRegistry& ops) {
  return GatedDecoderProgram(
      "deepseek", [&](const Tensor& x) { return DeepSeekAttention(request.fields, x); }, request, ops);
}

std::optional<FieldComplaint> CheckDeepSeek(const AttrMap& fields) {
  const int64_t turned = fields.Int("rotary_width");
  if (turned % 2 == 0) return std::nullopt;
  return FieldComplaint{"rotary_width", absl::StrCat(turned, " columns cannot be turned in pairs")};
}

}  // namespace

ModelDef DeepseekModel() {
  return OfText("deepseek", BuildDeepSeek, CheckDeepSeek,
                "vocabulary: 128 layers: 1 width: 24 heads: 4 hidden: 40 context: 12 query_rank: 10 kv_rank: 14 "
                "plain_width: 6 rotary_width: 4 value_width: 8 rope_scaling: 'yarn' rope_factor: 4 "
                "rope_original_context: 6 rope_magnitude: 1 rope_score_magnitude: 0.7");
}

}  // namespace oneflow
