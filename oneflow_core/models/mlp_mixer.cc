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
#include "oneflow_core/nn/conv2d.h"
#include "oneflow_core/nn/initial.h"
#include "oneflow_core/nn/linear.h"
#include "oneflow_core/nn/mlp.h"
#include "oneflow_core/nn/norm.h"

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

// [n, tokens, width], the patches of a row of the image before those of the next.
Tensor Patches(const AttrMap& fields, const Tensor& images) {
  const int64_t patch = fields.Int("patch"), width = fields.Int("width");
  const Tensor grid = nn::Conv2d(images, "patches",
                                 {.channels = width,
                                  .kernel = patch,
                                  .stride = patch,
                                  .init = nn::LecunUniform(images.shape()[1] * patch * patch)});
  if (!grid.valid()) return Tensor();
  return Transpose(Reshape(grid, {grid.shape()[0], width, -1}), {0, 2, 1});
}

Tensor MixerLogits(const AttrMap& fields, const Tensor& images) {
  if (!images.valid()) return Tensor();
  Tensor x = Patches(fields, images);
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

std::optional<FieldComplaint> CheckMlpMixer(const AttrMap& fields) {
  const ImageData images;
  const int64_t patch = fields.Int("patch");
  if (images.height % patch == 0 && images.width % patch == 0) return std::nullopt;
  return FieldComplaint{"patch", absl::StrCat("images of ", images.height, "x", images.width,
                                              " cannot be cut into patches of ", patch, "x", patch)};
}

}  // namespace

ModelDef MlpMixerModel() {
  return OfImages("mlp_mixer", BuildMlpMixer, CheckMlpMixer,
                  "patch: 7 width: 12 layers: 2 token_hidden: 10 channel_hidden: 20");
}

}  // namespace oneflow
