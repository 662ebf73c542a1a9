// ResNet (He et al., "Deep Residual Learning", 2016): 18 and 34 of basic blocks, 50, 101 and 152 of bottlenecks, whose
// stride is in the 3x3 convolution.
//
//   images [n,c,h,w] ──► stem ──► four stages of blocks ──► mean over pixels ──► head ──► logits [n,classes]
//
//   stem        convolution 7x7/2, norm, ReLU, max-pool 3x3/2; small_images: convolution 3x3, norm, ReLU
//   basic       relu(norm(conv 3x3(relu(norm(conv 3x3/s(x))))) + shortcut(x))
//   bottleneck  relu(norm(conv 1x1(relu(norm(conv 3x3/s(relu(norm(conv 1x1(x)))))))) + shortcut(x))
//   shortcut    x, or norm(conv 1x1/s(x)) where the shape changes
//
// Stage i has `width` 2^i channels, four times as many behind a bottleneck, and halves the image but for the first.
// Kernels start as normal with variance 2 / (outputs * pixels of the kernel). Batch norms are of the whole batch,
// wherever its samples lie.
//
// Variables: "stem/conv/weight", "stem/norm/{weight,bias}", "s0b0/a/conv/weight", "s0b0/a/norm/...",
// "s1b0/shortcut/...", "head/{weight,bias}"; and the norms' statistics, "stem/norm/{running_mean,running_var}".
#include "oneflow_core/models/resnet.h"

#include <cmath>

#include "oneflow_core/functional.h"
#include "oneflow_core/models/classifier.h"
#include "oneflow_core/models/model.h"
#include "oneflow_core/nn/batch_norm.h"
#include "oneflow_core/nn/conv2d.h"
#include "oneflow_core/nn/initial.h"
#include "oneflow_core/nn/linear.h"

namespace oneflow {
namespace {

struct ResNetDepth {
  int64_t depth;
  int64_t blocks[4];  // of each stage
  bool bottlenecks;
};
constexpr ResNetDepth kDepths[] = {{18, {2, 2, 2, 2}, false},
                                   {34, {3, 4, 6, 3}, false},
                                   {50, {3, 4, 6, 3}, true},
                                   {101, {3, 4, 23, 3}, true},
                                   {152, {3, 8, 36, 3}, true}};

const ResNetDepth* FindDepth(int64_t depth) {
  for (const ResNetDepth& each : kDepths) {
    if (each.depth == depth) return &each;
  }
  return nullptr;
}

class ResNet {
 public:
  ResNet(const AttrMap& fields, bool training) : fields_(fields), training_(training) {}

  Tensor Pixels(const Tensor& images) const {
    if (!images.valid()) return Tensor();
    const ResNetDepth& depth = *FindDepth(fields_.Int("depth"));
    Tensor x = Stem(images);
    int64_t channels = fields_.Int("width");
    for (int stage = 0; stage < 4; ++stage, channels *= 2) {
      for (int64_t block = 0; block < depth.blocks[stage]; ++block) {
        if (!x.valid()) return Tensor();
        const GraphBuilder::Scope scope(*x.builder(), absl::StrCat("s", stage, "b", block));
        const GraphBuilder::Segment segment(*x.builder(), "layers");
        const int64_t stride = stage > 0 && block == 0 ? 2 : 1;
        x = depth.bottlenecks ? Bottleneck(x, channels, stride) : Basic(x, channels, stride);
      }
    }
    return x;
  }

 private:
  Tensor ConvNorm(const Tensor& x, absl::string_view name, int64_t channels, int64_t kernel, int64_t stride) const {
    if (!x.valid()) return Tensor();
    const GraphBuilder::Scope scope(*x.builder(), name);
    const double fan_out = static_cast<double>(channels * kernel * kernel);
    const Tensor y = nn::Conv2d(x, "conv",
                                {.channels = channels,
                                 .kernel = kernel,
                                 .stride = stride,
                                 .padding = kernel / 2,
                                 .bias = false,
                                 .init = nn::Normal(std::sqrt(2 / fan_out))});
    return nn::BatchNorm(y, "norm", {.training = training_});
  }

  Tensor Stem(const Tensor& images) const {
    if (fields_.Bool("small_images")) return Relu(ConvNorm(images, "stem", fields_.Int("width"), 3, 1));
    const Tensor x = Relu(ConvNorm(images, "stem", fields_.Int("width"), 7, 2));
    // Nothing is below 0 behind a ReLU.
    return MaxPool2d(Pad(x, {0, 0, 1, 1}, {0, 0, 1, 1}), /*kernel=*/3, /*stride=*/2);
  }

  Tensor Joined(const Tensor& x, const Tensor& y, int64_t stride) const {
    if (!y.valid()) return Tensor();
    const bool same = x.shape() == y.shape();
    return Relu(Add(y, same ? x : ConvNorm(x, "shortcut", y.shape()[1], 1, stride)));
  }

  Tensor Basic(const Tensor& x, int64_t channels, int64_t stride) const {
    const Tensor a = Relu(ConvNorm(x, "a", channels, 3, stride));
    return Joined(x, ConvNorm(a, "b", channels, 3, 1), stride);
  }

  Tensor Bottleneck(const Tensor& x, int64_t channels, int64_t stride) const {
    const Tensor a = Relu(ConvNorm(x, "a", channels, 1, 1));
    const Tensor b = Relu(ConvNorm(a, "b", channels, 3, stride));
    return Joined(x, ConvNorm(b, "c", 4 * channels, 1, 1), stride);
  }

  const AttrMap& fields_;
  const bool training_;
};

absl::StatusOr<std::vector<Graph>> BuildResNet(const ModelRequest& request, const OpRegistry& ops) {
  OF_RETURN_IF_ERROR(CheckBatches("resnet", request.batches));
  const auto model = [&](const Tensor& images, bool training) {
    return ResNetLogits(request.fields, images, training);
  };
  return ClassifierProgram(OnSamples(model, request), request.batches, ops);
}

}  // namespace

std::optional<FieldComplaint> CheckResNet(const AttrMap& fields) {
  if (FindDepth(fields.Int("depth")) != nullptr) return std::nullopt;
  return FieldComplaint{
      "depth", absl::StrCat("there is no network of ", fields.Int("depth"), " layers, but of 18, 34, 50, 101 and 152")};
}

Tensor ResNetPixels(const AttrMap& fields, const Tensor& images, bool training) {
  return ResNet(fields, training).Pixels(images);
}

Tensor ResNetFeatures(const AttrMap& fields, const Tensor& images, bool training) {
  return ReduceMean(ResNetPixels(fields, images, training), {2, 3});
}

Tensor ResNetLogits(const AttrMap& fields, const Tensor& images, bool training) {
  const Tensor features = ResNetFeatures(fields, images, training);
  if (!features.valid()) return Tensor();
  return nn::Linear(features, "head", {.width = fields.Int("classes"), .init = nn::LecunUniform(features.shape()[1])});
}

ModelDef ResnetModel() {
  ModelDef resnet = OfImages("resnet", BuildResNet, CheckResNet, "depth: 18 width: 4 small_images: true");
  resnet.least_batch = 2;
  return resnet;
}

}  // namespace oneflow
