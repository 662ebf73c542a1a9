// U-Net (Ronneberger et al., "Convolutional Networks for Biomedical Image Segmentation", 2015), which is trained to
// restore images of which it sees a part: in every step each element of an image is set to 0 with probability `noise`,
// the others are divided by 1 - noise, and the loss is the mean squared error of all elements.
//
//   images [n,c,h,w] ──► block ─────────────────── concat ──► block ──► head, a convolution 1x1 ──► [n,c,h,w]
//                          └► half ─► block ── concat ──► block ──► twice ─┘
//                                       └► half ─► block ──► twice ─┘
//
//   block   silu(norm(conv 3x3(silu(norm(conv 3x3(x))))))
//   half    max-pool 2x2
//   twice   a transposed convolution 2x2/2, or bilinear interpolation and a convolution 1x1, to half the channels
//
// There are `width` channels at the full size, and twice as many at each of the `levels` halved ones. Norms are of
// groups of channels. Kernels start as HeUniform.
//
// Variables: "down0/a/conv/{weight,bias}", "down0/a/norm/{weight,bias}", "down0/b/...", "middle/a/...",
// "up0/twice/{weight,bias}", "up0/a/...", "head/{weight,bias}".
#include "oneflow_core/composed.h"
#include "oneflow_core/models/classifier.h"
#include "oneflow_core/models/model.h"
#include "oneflow_core/nn/conv2d.h"
#include "oneflow_core/nn/norm.h"

namespace oneflow {
namespace {

class UNet {
 public:
  explicit UNet(const AttrMap& fields) : fields_(fields) {}

  Tensor Restored(const Tensor& images) const {
    if (!images.valid()) return Tensor();
    const Shape shape = images.shape();
    const int64_t levels = fields_.Int("levels"), divisor = int64_t{1} << levels;
    if (shape[2] % divisor != 0 || shape[3] % divisor != 0) {
      images.builder()->Fail(absl::InvalidArgumentError(
          absl::StrCat("unet: images of ", shape[2], "x", shape[3], " cannot be halved ", levels, " times")));
      return Tensor();
    }
    std::vector<Tensor> at_level;
    int64_t channels = fields_.Int("width");
    Tensor x = images;
    for (int64_t level = 0; level < levels; ++level, channels *= 2) {
      at_level.push_back(Block(x, absl::StrCat("down", level), channels));
      x = MaxPool2d(at_level.back(), /*kernel=*/2, /*stride=*/2);
    }
    x = Block(x, "middle", channels);
    for (int64_t level = levels - 1; level >= 0; --level) {
      channels /= 2;
      x = Up(x, at_level[level], absl::StrCat("up", level), channels);
    }
    return nn::Conv2d(x, "head", {.channels = shape[1]});
  }

 private:
  Tensor ConvNorm(const Tensor& x, absl::string_view name, int64_t channels) const {
    const GraphBuilder::Scope scope(*x.builder(), name);
    const Tensor y = nn::Conv2d(x, "conv", {.channels = channels, .kernel = 3, .padding = 1});
    return Silu(nn::GroupNorm(y, "norm", fields_.Int("groups")));
  }

  Tensor TwoConvs(const Tensor& x, int64_t channels) const {
    const Tensor y = x.valid() ? ConvNorm(x, "a", channels) : Tensor();
    return y.valid() ? ConvNorm(y, "b", channels) : Tensor();
  }

  Tensor Block(const Tensor& x, absl::string_view name, int64_t channels) const {
    if (!x.valid()) return Tensor();
    const GraphBuilder::Scope scope(*x.builder(), name);
    const GraphBuilder::Segment segment(*x.builder(), "layers");
    return TwoConvs(x, channels);
  }

  // x, twice as large, beside what came down at that size.
  Tensor Up(const Tensor& x, const Tensor& beside, absl::string_view name, int64_t channels) const {
    if (!x.valid()) return Tensor();
    const GraphBuilder::Scope scope(*x.builder(), name);
    const GraphBuilder::Segment segment(*x.builder(), "layers");
    return TwoConvs(Concat({beside, Twice(x, channels)}, 1), channels);
  }

  Tensor Twice(const Tensor& x, int64_t channels) const {
    if (fields_.String("upsampling") == "bilinear") {
      return nn::Conv2d(ResizeBilinear(x, 2 * x.shape()[2], 2 * x.shape()[3]), "twice", {.channels = channels});
    }
    return nn::ConvTranspose2d(x, "twice", {.channels = channels, .kernel = 2, .stride = 2});
  }

  const AttrMap& fields_;
};

absl::StatusOr<std::vector<Graph>> BuildUnet(const ModelRequest& request, const OpRegistry& ops) {
  OF_RETURN_IF_ERROR(CheckBatches("unet", request.batches));
  const auto model = [&](GraphBuilder& b, DataSplit split, int64_t batch) {
    const Tensor images = request.reads.read(b, request.data, split, batch).inputs;
    const Tensor seen = Dropout(images, request.fields.Double("noise"));
    return Classified{UNet(request.fields).Restored(seen), Reshape(images, {-1})};
  };
  return ClassifierProgram(model, request.batches, ops);
}

std::optional<FieldComplaint> CheckUnet(const AttrMap& fields) {
  const int64_t width = fields.Int("width"), groups = fields.Int("groups");
  if (width % groups == 0) return std::nullopt;
  return FieldComplaint{"groups", absl::StrCat(groups, " groups do not divide a width of ", width, " channels")};
}

}  // namespace

ModelDef UnetModel() { return OfImages("unet", BuildUnet, CheckUnet, "width: 4 levels: 2 groups: 2 noise: 0.3"); }

}  // namespace oneflow
