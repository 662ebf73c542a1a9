#include "oneflow_core/models/margin_classifier.h"

#include <cmath>

#include "oneflow_core/functional.h"
#include "oneflow_core/models/classifier.h"
#include "oneflow_core/models/model.h"
#include "oneflow_core/models/resnet.h"
#include "oneflow_core/nn/batch_norm.h"
#include "oneflow_core/nn/initial.h"
#include "oneflow_core/nn/linear.h"

namespace oneflow {
namespace {

constexpr double kLeastSquare = 1e-12;  // keeps the direction of a zero vector finite

absl::Status Check(const MarginClassifierConfig& config, const PrototypeData& data, const BatchSizes& batches) {
  const absl::string_view model = "margin_classifier";
  for (size_t i = 0; i < config.widths.size(); ++i) {
    OF_RETURN_IF_ERROR(CheckSize(model, absl::StrCat("width ", i), config.widths[i]));
  }
  OF_RETURN_IF_ERROR(CheckSize(model, "the embedding's width", config.embedding));
  OF_RETURN_IF_ERROR(CheckSize(model, "the number of classes", data.classes));
  OF_RETURN_IF_ERROR(CheckSize(model, "the number of image channels", data.channels));
  OF_RETURN_IF_ERROR(CheckSize(model, "the image height", data.height));
  OF_RETURN_IF_ERROR(CheckSize(model, "the image width", data.width));
  if (!(config.scale > 0) || std::isinf(config.scale)) {
    return absl::InvalidArgumentError(
        absl::StrCat(model, ": scale is ", config.scale, ", but must be positive and finite"));
  }
  if (!(config.margin >= 0 && config.margin < 2)) {
    return absl::InvalidArgumentError(
        absl::StrCat(model, ": margin is ", config.margin, ", but must be from 0 to below 2"));
  }
  return CheckBatches(model, batches);
}

// The rows of x [n,c], each divided by its length.
Tensor Directions(const Tensor& x) {
  if (!x.valid()) return x;
  const Tensor squares = RowDot(x, x);
  return Mul(x, Rsqrt(AddScalar(Reshape(squares, {x.shape()[0], 1}), kLeastSquare)));
}

// What the network makes of the images: [n,features], or, for head norms, with pixels behind.
Tensor Features(const MarginClassifierConfig& config, const Tensor& images, bool training) {
  if (!images.valid()) return Tensor();
  if (config.resnet.has_value()) {
    return config.head_norms ? ResNetPixels(*config.resnet, images, training)
                             : ResNetFeatures(*config.resnet, images, training);
  }
  Tensor x = Reshape(images, {images.shape()[0], -1});
  for (size_t i = 0; i < config.widths.size() && x.valid(); ++i) {
    x = Relu(nn::Linear(x, absl::StrCat("fc", i), {.width = config.widths[i], .init = nn::HeUniform(x.shape()[1])}));
  }
  return x;
}

Tensor EmbeddingOf(const MarginClassifierConfig& config, Tensor x, bool training) {
  if (config.head_norms && x.valid()) {
    x = Dropout(Reshape(nn::BatchNorm(x, "norm_in", {.training = training}), {x.shape()[0], -1}),
                training ? config.dropout : 0);
  }
  if (!x.valid()) return Tensor();
  x = nn::Linear(x, "embedding", {.width = config.embedding, .init = nn::LecunUniform(x.shape()[1])});
  return config.head_norms ? nn::BatchNorm(x, "norm_out", {.training = training, .scaled = false}) : x;
}

// f32[n,classes].
Tensor Cosines(const MarginClassifierConfig& config, int64_t classes, const Tensor& x) {
  if (!x.valid()) return Tensor();
  const Tensor rows =
      x.builder()->Variable("classes", {DType::kFloat32, {classes, config.embedding}},
                            nn::Normal(1 / std::sqrt(static_cast<double>(config.embedding))), {{"tp", Sbp::Split(0)}});
  // Samples are dealt out over tp only up to here: each rank compares all samples of its dp group with its own classes.
  const Tensor features = Directions(x).To({{"tp", Sbp::Broadcast()}});
  return MatMul(features, Directions(rows), /*transpose_b=*/true).To({{"tp", Sbp::Split(1)}});
}

// `margin` in the column of each row's label, zeros elsewhere.
Tensor Margins(const Tensor& labels, double margin, int64_t classes) {
  if (!labels.valid()) return Tensor();
  const int64_t rows = labels.shape()[0];
  const Tensor values = Constant(*labels.builder(), {DType::kFloat32, {rows, 1}}, margin);
  return PutAlong(values, Reshape(labels, {rows, 1}), classes);
}

}  // namespace

absl::StatusOr<std::vector<Graph>> MarginClassifierProgram(const MarginClassifierConfig& config,
                                                           const PrototypeData& data, const BatchSizes& batches,
                                                           const OpRegistry& ops) {
  OF_RETURN_IF_ERROR(Check(config, data, batches));
  const auto classifier = [&](GraphBuilder& b, DataSplit split, int64_t batch) {
    const Batch samples = ReadPrototypeBatch(b, data, split, batch);
    const bool training = split == DataSplit::kTrain;
    const Tensor features = Features(config, samples.inputs, training);
    Tensor cosines = Cosines(config, data.classes, EmbeddingOf(config, features, training));
    if (training && config.margin > 0) {
      cosines = Sub(cosines, Margins(samples.labels, config.margin, data.classes));
    }
    return Classified{Scale(cosines, config.scale), samples.labels};
  };
  return ClassifierProgram(classifier, batches, ops);
}

namespace {

absl::StatusOr<std::vector<Graph>> BuildMarginClassifier(const ModelRequest& request, const OpRegistry& ops) {
  const AttrMap& fields = request.fields;
  MarginClassifierConfig config = {.widths = fields.Ints("widths"),
                                   .head_norms = fields.Bool("head_norms"),
                                   .dropout = fields.Double("dropout"),
                                   .embedding = fields.Int("embedding"),
                                   .scale = fields.Double("scale"),
                                   .margin = fields.Double("margin")};
  if (fields.Int("depth") > 0) config.resnet = fields;
  return MarginClassifierProgram(config, PrototypeDataOf(request.data), request.batches, ops);
}

std::optional<FieldComplaint> CheckMarginClassifier(const AttrMap& fields) {
  if (const double dropout = fields.Double("dropout"); dropout > 0 && !fields.Bool("head_norms")) {
    return FieldComplaint{"dropout", absl::StrCat(dropout, " is of the head, which has one with head_norms only")};
  }
  if (fields.Int("depth") == 0) return std::nullopt;
  if (auto complaint = CheckResNet(fields)) return complaint;
  if (fields.Ints("widths").empty()) return std::nullopt;
  return FieldComplaint{"widths", "are of hidden layers, which there are none of with a depth"};
}

}  // namespace

ModelDef MarginClassifierModel() {
  return {.name = "margin_classifier",
          .reads = {"prototypes"},
          .build = BuildMarginClassifier,
          .check = CheckMarginClassifier,
          .small = "widths: [24] embedding: 10 scale: 8"};
}

}  // namespace oneflow
