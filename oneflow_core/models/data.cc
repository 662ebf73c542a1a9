#include "oneflow_core/models/data.h"

#include "oneflow_core/functional.h"
#include "oneflow_core/models/config.h"

namespace oneflow {
namespace {

std::string Name(DataSplit split) { return split == DataSplit::kTrain ? "train" : "validation"; }

Batch DealtOut(const Tensor& inputs, const Tensor& labels, std::source_location loc) {
  const SbpHint by_sample = {{"dp", Sbp::Split(0)}};
  return {inputs.To(by_sample, loc), labels.To(by_sample, loc)};
}

}  // namespace

absl::Status CheckImages(absl::string_view model, const ImageData& data) {
  OF_RETURN_IF_ERROR(CheckSize(model, "the number of image channels", data.channels));
  OF_RETURN_IF_ERROR(CheckSize(model, "the image height", data.height));
  return CheckSize(model, "the image width", data.width);
}

Batch ReadTextBatch(GraphBuilder& b, const TextData& data, DataSplit split, int64_t batch, int64_t context,
                    int64_t vocabulary, std::source_location loc) {
  const TextBatch read = ReadText(b, batch, context,
                                  {{"path", data.path},
                                   {"split", Name(split)},
                                   {"validation_fraction", data.validation_fraction},
                                   {"vocabulary", vocabulary}},
                                  loc);
  return DealtOut(read.tokens, read.labels, loc);
}

Batch ReadImageBatch(GraphBuilder& b, const ImageData& data, DataSplit split, int64_t batch, std::source_location loc) {
  const bool train = split == DataSplit::kTrain;
  const ImageBatch read = ReadImages(b, batch, data.channels, data.height, data.width,
                                     {{"images", train ? data.train_images : data.test_images},
                                      {"labels", train ? data.train_labels : data.test_labels},
                                      {"split", Name(split)}},
                                     loc);
  return DealtOut(read.images, read.labels, loc);
}

}  // namespace oneflow
