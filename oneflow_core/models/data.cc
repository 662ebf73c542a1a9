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

Batch ReadPrototypeBatch(GraphBuilder& b, const PrototypeData& data, DataSplit split, int64_t batch,
                         std::source_location loc) {
  std::vector<Tensor> read = b.Op("read_data", {},
                                  {{"dataset", "prototypes"},
                                   {"batch", batch},
                                   {"channels", data.channels},
                                   {"height", data.height},
                                   {"width", data.width},
                                   {"classes", data.classes},
                                   {"noise", data.noise},
                                   {"samples", split == DataSplit::kTrain ? data.samples : data.validation_samples},
                                   {"split", Name(split)}},
                                  loc);
  read.resize(2);
  const SbpHint by_sample = {{"dp", Sbp::Split(0)}, {"tp", Sbp::Split(0)}};
  return {read[0].To(by_sample, loc), read[1].To({{"dp", Sbp::Split(0)}}, loc)};
}

ClickBatch ReadClickBatch(GraphBuilder& b, const ClickData& data, DataSplit split, int64_t batch,
                          std::source_location loc) {
  std::vector<Tensor> read = b.Op("read_data", {},
                                  {{"dataset", "clicks"},
                                   {"batch", batch},
                                   {"fields", data.fields},
                                   {"numbers", data.numbers},
                                   {"vocabulary", data.vocabulary},
                                   {"samples", split == DataSplit::kTrain ? data.samples : data.validation_samples},
                                   {"split", Name(split)}},
                                  loc);
  read.resize(3);
  const SbpHint by_sample = {{"dp", Sbp::Split(0)}};
  return {read[0].To(by_sample, loc), read[1].To(by_sample, loc), read[2].To(by_sample, loc)};
}

}  // namespace oneflow
