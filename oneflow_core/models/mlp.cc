#include "oneflow_core/models/mlp.h"

#include "oneflow_core/functional.h"
#include "oneflow_core/models/classifier.h"
#include "oneflow_core/models/model.h"
#include "oneflow_core/nn/initial.h"
#include "oneflow_core/nn/linear.h"

namespace oneflow {
namespace {

absl::Status Check(const MlpConfig& config, const ImageData& data, const BatchSizes& batches) {
  for (size_t i = 0; i < config.widths.size(); ++i) {
    OF_RETURN_IF_ERROR(CheckSize("mlp", absl::StrCat("width ", i), config.widths[i]));
  }
  OF_RETURN_IF_ERROR(CheckSize("mlp", "the number of classes", config.classes));
  OF_RETURN_IF_ERROR(CheckImages("mlp", data));
  return CheckBatches("mlp", batches);
}

absl::StatusOr<std::vector<Graph>> BuildMlp(const ModelRequest& request, const OpRegistry& ops) {
  const MlpConfig config = {.widths = request.fields.Ints("widths"), .classes = request.fields.Int("classes")};
  OF_RETURN_IF_ERROR(Check(config, ImageData(), request.batches));
  // One number where the data has a target instead of classes.
  const bool estimates = !request.data.String("target").empty();
  const MlpConfig of_data = {.widths = config.widths, .classes = estimates ? 1 : config.classes};
  const auto model = [&](const Tensor& samples, bool) { return MlpLogits(of_data, samples); };
  return ClassifierProgram(OnSamples(model, request), request.batches, ops);
}

}  // namespace

ModelDef MlpModel() {
  return {.name = "mlp", .reads = {"images", "cifar", "csv"}, .build = BuildMlp, .small = "widths: [33, 17]"};
}

Tensor MlpLogits(const MlpConfig& config, const Tensor& images) {
  if (!images.valid()) return Tensor();
  Tensor x = Reshape(images, {images.shape()[0], -1});
  for (size_t i = 0; i < config.widths.size() && x.valid(); ++i) {
    const std::string name = absl::StrCat("fc", i);
    x = Relu(nn::Linear(x, name, {.width = config.widths[i], .init = nn::HeUniform(x.shape()[1])}));
  }
  if (!x.valid()) return Tensor();
  return nn::Linear(x, "head", {.width = config.classes, .init = nn::LecunUniform(x.shape()[1])});
}

absl::StatusOr<std::vector<Graph>> MlpProgram(const MlpConfig& config, const ImageData& data, const BatchSizes& batches,
                                              const OpRegistry& ops) {
  OF_RETURN_IF_ERROR(Check(config, data, batches));
  const auto model = [&](const Tensor& images, bool) { return MlpLogits(config, images); };
  return ClassifierProgram(OnImages(model, data), batches, ops);
}

}  // namespace oneflow
