#include "oneflow_core/data/data_kind.h"
#include "oneflow_core/data/deal_out.h"
#include "oneflow_core/data/image_types.h"
#include "oneflow_core/functional.h"
#include "oneflow_core/literal.h"
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
  SetNormalisation(fields, attributes);
  return ReadFiles(b, ImageDataOf(fields), split, batch, std::move(attributes), std::source_location::current());
}

std::optional<FieldComplaint> CheckImageFiles(const AttrMap& fields, bool evaluates) {
  if (auto complaint = CheckNormalisation(fields, fields.Int("channels")); complaint || !evaluates) return complaint;
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

void SetNormalisation(const AttrMap& fields, AttrMap& attributes) {
  for (const char* name : {"mean", "std"}) {
    const std::string text = fields.String(name);
    const std::optional<std::vector<double>> values = ParseLiteral(text);
    if (!values.has_value() || values->empty()) continue;
    if (values->size() > 1) {
      attributes.Set(name, text);
    } else if ((*values)[0] != 0.5) {  // the source's default
      attributes.Set(name, (*values)[0]);
    }
  }
}

std::optional<FieldComplaint> CheckNormalisation(const AttrMap& fields, int64_t channels) {
  for (const char* name : {"mean", "std"}) {
    const std::optional<std::vector<double>> values = ParseLiteral(fields.String(name));
    const int64_t count = values.has_value() ? static_cast<int64_t>(values->size()) : 0;
    if (count <= 1 || count == channels) continue;
    return FieldComplaint{
        name, absl::StrCat("has ", count, " numbers, but images have ", channels,
                           channels == 1 ? " channel" : " channels", ": one for all of them, or one for each")};
  }
  return std::nullopt;
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
