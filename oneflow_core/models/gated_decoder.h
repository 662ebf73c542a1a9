// What Llama, DeepSeek and their kin have in common: a decoder-only transformer with RMS norms and gated MLPs, around
// an attention.
//
//   tokens [n,t] ──► wte[tokens] ──► blocks h0, h1, ... ──► RMS norm ──► head ──► logits [n,t,vocabulary]
//
//   block:  x += attention(RMS norm(x));  x += gated mlp(RMS norm(x))
//
// All matrices start as normal with standard deviation 0.02. Layouts are said by the layers (nn/).
//
// Variables: "wte/weight", "h0/norm1/weight", "h0/norm2/weight", "h0/mlp/{gate,up,down}/weight", "norm_f/weight",
// "head/weight", and those of the attention in "h0".
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "oneflow_core/models/model.h"

namespace oneflow {

// x [n,t,width] to what is added to the residual stream, of the same shape.
using AttentionOf = std::function<Tensor(const Tensor& x)>;

// Of the config it reads `vocabulary`, `context`, `width`, `layers`, `hidden`, `epsilon` and `tied_embedding`. Errors
// as of LanguageModelProgram.
absl::StatusOr<std::vector<Graph>> GatedDecoderProgram(const std::string& name, const AttentionOf& attention,
                                                       const ModelRequest& request, const OpRegistry& ops);

}  // namespace oneflow
