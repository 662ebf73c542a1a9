// Vision Transformer (Dosovitskiy et al., "An Image is Worth 16x16 Words", 2021).
//
//   images [n,c,h,w] ──► patches, each a linear map ──► [n, 1 + tokens, width], the class token first, + positions
//                    ──► blocks h0, h1, ... ──► layer norm ──► head on the class token ──► logits [n,classes]
//
//   block:  x += attention(layer norm(x));  x += mlp(layer norm(x))
//
// Norms come before each part, GELU is exact. Matrices, positions and the class token start as normal with standard
// deviation 0.02, biases as zeros. On mesh axis "tp" the layers are split as nn/ says.
//
// Variables: "patches/weight" (a kernel as large as a patch), "patches/bias", "class_token", "positions",
// "h0/ln1/weight", "h0/attn/q/weight", "h0/ln2/...", "h0/mlp/up/...", "ln_f/...", "head/{weight,bias}".
#include "oneflow_core/models/vit.h"

#include "oneflow_core/functional.h"
#include "oneflow_core/models/classifier.h"
#include "oneflow_core/models/model.h"
#include "oneflow_core/nn/attention.h"
#include "oneflow_core/nn/initial.h"
#include "oneflow_core/nn/layers.h"
#include "oneflow_core/nn/linear.h"
#include "oneflow_core/nn/mlp.h"
#include "oneflow_core/nn/norm.h"
#include "oneflow_core/nn/patches.h"

namespace oneflow {
namespace {

std::string VitInitial() { return nn::Normal(0.02); }

Tensor VitNorm(const AttrMap& fields, const Tensor& x, absl::string_view name) {
  return nn::LayerNorm(x, name, fields.Double("epsilon"));
}

// [n, 1 + tokens, width].
Tensor Tokens(const AttrMap& fields, const Tensor& images) {
  const int64_t width = fields.Int("width");
  const Tensor patches = nn::Patches(images, "patches", fields.Int("patch"), width, VitInitial());
  if (!patches.valid()) return Tensor();
  GraphBuilder& b = *patches.builder();
  const Tensor token = b.Variable("class_token", {DType::kFloat32, {1, 1, width}}, VitInitial(), {}, true);
  const Tensor x = Concat({BroadcastTo(token, {patches.shape()[0], 1, width}), patches}, 1);
  if (!x.valid()) return Tensor();
  return Add(x, b.Variable("positions", {DType::kFloat32, {1, x.shape()[1], width}}, VitInitial(), {}, true));
}

Tensor VitBlock(const AttrMap& fields, const Tensor& input, double dropout) {
  const std::string init = VitInitial();
  const int64_t width = fields.Int("width"), hidden = fields.Int("hidden");
  const Tensor attended =
      nn::SelfAttention(VitNorm(fields, input, "ln1"), "attn",
                        {.heads = fields.Int("heads"), .causal = false, .init = init, .output_init = init});
  const Tensor x = Add(input, Dropout(attended, dropout));
  const Tensor processed = nn::Mlp(VitNorm(fields, x, "ln2"), "mlp",
                                   {.hidden = hidden > 0 ? hidden : 4 * width, .init = init, .output_init = init});
  return Add(x, Dropout(processed, dropout));
}

}  // namespace

Tensor VitLogits(const AttrMap& fields, const Tensor& images, bool training) {
  if (!images.valid()) return Tensor();
  const double dropout = training ? fields.Double("dropout") : 0;
  Tensor x = Dropout(Tokens(fields, images), dropout);
  x = nn::Layers(x, fields.Int("layers"), [&](const Tensor& y, int64_t) { return VitBlock(fields, y, dropout); });
  if (!x.valid()) return Tensor();
  const int64_t samples = x.shape()[0], width = x.shape()[2];
  const Tensor first = Reshape(Slice(VitNorm(fields, x, "ln_f"), 1, 0, 1), {samples, width});
  return nn::Linear(first, "head", {.width = fields.Int("classes"), .init = VitInitial()});
}

namespace {

absl::StatusOr<std::vector<Graph>> BuildVit(const ModelRequest& request, const OpRegistry& ops) {
  OF_RETURN_IF_ERROR(CheckBatches("vit", request.batches));
  const auto model = [&](const Tensor& images, bool training) { return VitLogits(request.fields, images, training); };
  return ClassifierProgram(OnSamples(model, request), request.batches, ops);
}

std::optional<FieldComplaint> CheckVit(const AttrMap& fields) {
  const int64_t width = fields.Int("width"), heads = fields.Int("heads");
  if (width % heads == 0) return std::nullopt;
  return FieldComplaint{"heads", absl::StrCat("width ", width, " is not a multiple of ", heads, " heads")};
}

}  // namespace

ModelDef VitModel() {
  return OfImages("vit", BuildVit, CheckVit, "patch: 7 width: 24 layers: 2 heads: 4 dropout: 0.1");
}

}  // namespace oneflow
