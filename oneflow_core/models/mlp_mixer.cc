// MLP-Mixer (Tolstikhin et al., 2021): an image is a table of patches by channels, and two MLPs take turns, one along
// each side of the table. There is neither convolution nor attention.
//
//   images [n,c,h,w] ──► patches, each a linear map ──► [n, tokens, width] ──► blocks b0, b1, ... ──► layer norm
//                                                          ──► mean over tokens ──► linear ──► logits [n, classes]
//   block:  x += transpose(mlp(transpose(layer norm(x))));  x += mlp(layer norm(x))
//
// Variables: "patches/weight" (a kernel as large as a patch), "b0/ln1/weight", "b0/tokens/up/weight",
// "b0/channels/down/bias", ..., "ln/weight", "head/weight". On mesh axis "tp" both MLPs are split as nn/mlp.h says.
#include "oneflow_core/functional.h"
#include "oneflow_core/models/classifier.h"
#include "oneflow_core/models/model.h"
#include "oneflow_core/nn/initial.h"
#include "oneflow_core/nn/linear.h"
#include "oneflow_core/nn/mlp.h"
#include "oneflow_core/nn/norm.h"
#include "oneflow_core/nn/patches.h"

namespace oneflow {
namespace {

// Along the last dimension of x, with `hidden` values between.
Tensor Mixed(const Tensor& x, absl::string_view name, int64_t hidden) {
  if (!x.valid()) return Tensor();
  const int64_t width = x.shape()[x.shape().rank() - 1];
  return nn::Mlp(x, name, {.hidden = hidden, .init = nn::LecunUniform(width), .output_init = nn::LecunUniform(hidden)});
}

Tensor MixerBlock(const AttrMap& fields, const Tensor& x) {
  const Tensor by_channel = Transpose(nn::LayerNorm(x, "ln1"), {0, 2, 1});
  const Tensor y = Add(x, Transpose(Mixed(by_channel, "tokens", fields.Int("token_hidden")), {0, 2, 1}));
  return Add(y, Mixed(nn::LayerNorm(y, "ln2"), "channels", fields.Int("channel_hidden")));
}

Tensor MixerLogits(const AttrMap& fields, const Tensor& images) {
  if (!images.valid()) return Tensor();
  const int64_t patch = fields.Int("patch");
  Tensor x =
      nn::Patches(images, "patches", patch, fields.Int("width"), nn::LecunUniform(images.shape()[1] * patch * patch));
  for (int64_t layer = 0; layer < fields.Int("layers") && x.valid(); ++layer) {
    const GraphBuilder::Scope scope(*x.builder(), absl::StrCat("b", layer));
    const GraphBuilder::Segment segment(*x.builder(), "layers");
    x = MixerBlock(fields, x);
  }
  if (!x.valid()) return Tensor();
  const Tensor mean = ReduceMean(nn::LayerNorm(x, "ln"), {1});
  return nn::Linear(mean, "head", {.width = fields.Int("classes"), .init = nn::LecunUniform(fields.Int("width"))});
}

absl::StatusOr<std::vector<Graph>> BuildMlpMixer(const ModelRequest& request, const OpRegistry& ops) {
  OF_RETURN_IF_ERROR(CheckBatches("mlp_mixer", request.batches));
  const auto model = [&](const Tensor& images, bool) { return MixerLogits(request.fields, images); };
  return ClassifierProgram(OnSamples(model, request), request.batches, ops);
}

}  // namespace

ModelDef MlpMixerModel() {
  return OfImages("mlp_mixer", BuildMlpMixer, /*check=*/nullptr,
                  "patch: 7 width: 12 layers: 2 token_hidden: 10 channel_hidden: 20");
}

}  // namespace oneflow
