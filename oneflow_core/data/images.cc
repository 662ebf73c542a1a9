#include "oneflow_core/data/data_kind.h"
#include "oneflow_core/data/deal_out.h"
#include "oneflow_core/data/image_types.h"
#include "oneflow_core/functional.h"
#include "oneflow_core/ops/check.h"

namespace oneflow {
namespace {

ImageData ImageDataOf(const AttrMap& fields) {
  ImageData data;
  data.train_images = fields.String("train_images");
  data.train_labels = fields.String("train_labels");
  data.test_images = fields.String("test_images");
  data.test_labels = fields.String("test_labels");
  data.channels = fields.Int("channels");
  data.height = fields.Int("height");
  data.width = fields.Int("width");
  return data;
}

Batch ReadFiles(GraphBuilder& b, const ImageData& data, DataSplit split, int64_t batch, AttrMap attributes,
                std::source_location loc) {
  const bool train = split == DataSplit::kTrain;
  attributes.Set("images", train ? data.train_images : data.test_images);
  attributes.Set("labels", train ? data.train_labels : data.test_labels);
  attributes.Set("split", SplitName(split));
  const ImageBatch read = ReadImages(b, batch, data.channels, data.height, data.width, std::move(attributes), loc);
  return DealtOut(read.images, read.labels, loc);
}

Batch ReadImagesOf(GraphBuilder& b, const AttrMap& fields, DataSplit split, int64_t batch) {
  AttrMap attributes;
  for (const char* name : {"mean", "std"}) {
    if (const double value = fields.Double(name); value != 0.5) attributes.Set(name, value);  // the source's default
  }
  return ReadFiles(b, ImageDataOf(fields), split, batch, std::move(attributes), std::source_location::current());
}

std::optional<FieldComplaint> CheckImageFiles(const AttrMap& fields, bool evaluates) {
  if (!evaluates) return std::nullopt;
  for (const char* field : {"test_images", "test_labels"}) {
    if (fields.String(field).empty()) return FieldComplaint{field, "is missing, but evaluate is asked for"};
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<std::vector<TensorType>> ImageTypes(const AttrMap& attributes, int64_t batch) {
  OF_ASSIGN_OR_RETURN(const int64_t channels, ops::IntAttr(attributes, "channels", 1));
  OF_ASSIGN_OR_RETURN(const int64_t height, ops::IntAttr(attributes, "height", 1));
  OF_ASSIGN_OR_RETURN(const int64_t width, ops::IntAttr(attributes, "width", 1));
  return std::vector<TensorType>{{DType::kFloat32, {batch, channels, height, width}}, {DType::kInt32, {batch}}};
}

absl::Status CheckImages(absl::string_view model, const ImageData& data) {
  OF_RETURN_IF_ERROR(CheckSize(model, "the number of image channels", data.channels));
  OF_RETURN_IF_ERROR(CheckSize(model, "the image height", data.height));
  return CheckSize(model, "the image width", data.width);
}

Batch ReadImageBatch(GraphBuilder& b, const ImageData& data, DataSplit split, int64_t batch, std::source_location loc) {
  return ReadFiles(b, data, split, batch, {}, loc);
}

DataKind ImagesKind() {
  return {.name = "images",
          .types = ImageTypes,
          .read = ReadImagesOf,
          .check = CheckImageFiles,
          .paths = {"images", "labels"},
          .labels = 1,
          .unit = "images"};
}

}  // namespace oneflow
