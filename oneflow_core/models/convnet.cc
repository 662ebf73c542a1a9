#include "oneflow_core/models/convnet.h"

#include <algorithm>

#include "oneflow_core/functional.h"
#include "oneflow_core/models/classifier.h"
#include "oneflow_core/models/model.h"
#include "oneflow_core/nn/conv2d.h"
#include "oneflow_core/nn/initial.h"
#include "oneflow_core/nn/linear.h"

namespace oneflow {
namespace {

absl::Status Check(const ConvNetConfig& config, const ImageData& data, const BatchSizes& batches) {
  OF_RETURN_IF_ERROR(CheckImages("convnet", data));
  int64_t side = std::min(data.height, data.width);
  for (size_t i = 0; i < config.channels.size(); ++i, side /= 2) {
    OF_RETURN_IF_ERROR(CheckSize("convnet", absl::StrCat("channels ", i), config.channels[i]));
    if (side < 2) {
      return absl::InvalidArgumentError(absl::StrCat("convnet: images of ", data.height, "x", data.width,
                                                     " cannot be halved ", config.channels.size(), " times"));
    }
  }
  OF_RETURN_IF_ERROR(CheckSize("convnet", "hidden", config.hidden));
  OF_RETURN_IF_ERROR(CheckSize("convnet", "the number of classes", config.classes));
  OF_RETURN_IF_ERROR(CheckFraction("convnet", "dropout", config.dropout));
  return CheckBatches("convnet", batches);
}

absl::StatusOr<std::vector<Graph>> BuildConvNet(const ModelRequest& request, const OpRegistry& ops) {
  const AttrMap& fields = request.fields;
  const ConvNetConfig config = {.channels = fields.Ints("channels"),
                                .hidden = fields.Int("hidden"),
                                .classes = fields.Int("classes"),
                                .dropout = fields.Double("dropout")};
  OF_RETURN_IF_ERROR(Check(config, ImageData(), request.batches));
  const auto model = [&](const Tensor& images, bool training) { return ConvNetLogits(config, images, training); };
  return ClassifierProgram(OnSamples(model, request), request.batches, ops);
}

std::optional<FieldComplaint> CheckConvNet(const AttrMap& fields) {
  const size_t sizes = fields.Ints("channels").size();
  if (sizes == 2) return std::nullopt;
  return FieldComplaint{"channels", absl::StrCat("the network has 2 convolutions, but ", sizes, " sizes are given")};
}

}  // namespace

ModelDef ConvnetModel() {
  return OfImages("convnet", BuildConvNet, CheckConvNet, "channels: [6, 10] hidden: 20 dropout: 0.2");
}

Tensor ConvNetLogits(const ConvNetConfig& config, const Tensor& images, bool training) {
  if (!images.valid()) return Tensor();
  Tensor x = images;
  for (size_t i = 0; i < config.channels.size(); ++i) {
    const GraphBuilder::Segment segment(*images.builder(), "layers");
    // Padding 2 keeps the size under a 5x5 kernel, so that only pooling shrinks the image.
    x = nn::Conv2d(x, absl::StrCat("conv", i), {.channels = config.channels[i], .kernel = 5, .padding = 2});
    x = MaxPool2d(Relu(x), /*kernel=*/2, /*stride=*/2);
  }
  if (!x.valid()) return Tensor();
  x = Reshape(x, {x.shape()[0], -1});
  if (!x.valid()) return Tensor();
  x = Relu(nn::Linear(x, "fc", {.width = config.hidden, .init = nn::HeUniform(x.shape()[1])}));
  x = Dropout(x, training ? config.dropout : 0);
  return nn::Linear(x, "head", {.width = config.classes, .init = nn::LecunUniform(config.hidden)});
}

absl::StatusOr<std::vector<Graph>> ConvNetProgram(const ConvNetConfig& config, const ImageData& data,
                                                  const BatchSizes& batches, const OpRegistry& ops) {
  OF_RETURN_IF_ERROR(Check(config, data, batches));
  const auto model = [&](const Tensor& images, bool training) { return ConvNetLogits(config, images, training); };
  return ClassifierProgram(OnImages(model, data), batches, ops);
}

}  // namespace oneflow
