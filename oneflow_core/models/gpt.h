// GPT: a decoder-only transformer on bytes.
//
//   tokens [n,t] ──► wte[tokens] + wpe ──► blocks h0, h1, ... ──► layer norm ──► head ──► logits [n,t,vocabulary]
//
//   block:  x += dropout(attention(layer norm(x)));  x += dropout(mlp(layer norm(x)))
//
// LayerNorm comes before each part (GPT-2), GELU is exact unless asked otherwise, positions are learned, the head has
// no bias. Weights start as normal with standard deviation 0.02; the projections that write to the residual stream with
// 0.02 / sqrt(2 * layers), so that the stream's variance does not grow with depth; biases as zeros. The layout on mesh
// axes "dp" and "tp" is said by hints on the data (models/data.h) and on the layers (nn/); how the head's matrix lies
// is left to the compiler.
//
// Variables: "wte/weight", "wpe/weight", "h0/ln1/weight", "h0/attn/q/weight", "h0/ln2/...", "h0/mlp/up/...",
// "ln_f/...", "head/weight".
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "oneflow_core/models/language_model.h"

namespace oneflow {

struct GptConfig {
  int64_t vocabulary = 256;
  int64_t layers = 4;
  int64_t width = 128;
  int64_t heads = 4;
  int64_t context = 128;        // tokens per sample
  double dropout = 0;           // after the embedding, after attention's projection and after the mlp
  bool tied_embedding = false;  // the head uses the token embedding's matrix
  bool gelu_tanh = false;       // GELU is approximated by tanh, as GPT-2's is
  // What is below is for comparisons with other systems.
  std::optional<DType> kept_scores;  // of attention (nn/attention.h); with them `dropout` is that of its softmax too
  // How the residual stream and its gradient lie along mesh axis "tp": whole as in Megatron-LM, or split by tokens as
  // with its sequence parallelism; nothing: as is cheapest.
  std::optional<Sbp> stream;
  std::vector<int> stages;  // by layer, its place along mesh axis "pp"; empty: the compiler cuts the model
};

// tokens i32[n,context] to logits f32[n,context,vocabulary].
Tensor GptLogits(const GptConfig& config, const Tensor& tokens, bool training);

// The graphs of language_model.h. InvalidArgument naming the field if the config is impossible.
absl::StatusOr<std::vector<Graph>> GptProgram(const GptConfig& config, const TextData& data, const BatchSizes& batches,
                                              const std::optional<Continuation>& generation, const OpRegistry& ops);

}  // namespace oneflow
