#include "actor/data/labelled_images.h"

#include <cmath>
#include <optional>
#include <utility>

#include "actor/data/permutation.h"
#include "actor/data/sample_range.h"
#include "kernels/random.h"
#include "oneflow_core/literal.h"

namespace oneflow {
namespace {

class ImageSource : public Source {
 public:
  // A mean and a deviation for each channel.
  ImageSource(LabelledImages images, const std::vector<double>& means, const std::vector<double>& deviations,
              bool shuffled, uint64_t seed)
      : images_(std::move(images)), shuffled_(shuffled), seed_(seed) {
    for (size_t c = 0; c < means.size(); ++c) {
      scales_.push_back(static_cast<float>(1 / (255 * deviations[c])));
      shifts_.push_back(static_cast<float>(-means[c] / deviations[c]));
    }
  }

  int64_t num_samples() const override { return static_cast<int64_t>(images_.labels.size()); }

  absl::Status Read(int64_t step, int64_t micro_batch, int64_t micro_batches, std::span<const TensorArg> outputs,
                    int64_t row_shift) override {
    if (outputs.size() != 2)
      return absl::InvalidArgumentError(absl::StrCat("images have 2 outputs, not ", outputs.size()));
    const TensorArg& x = outputs[0];
    const TensorArg& y = outputs[1];
    if (x.dtype != DType::kFloat32 || x.rank != 4 || y.dtype != DType::kInt32 || y.rank != 1) {
      return absl::InvalidArgumentError("images fill f32[batch,channels,height,width] and i32[batch] only");
    }
    OF_RETURN_IF_ERROR(CheckSizes(images_, x.logical_dims[1], x.logical_dims[2], x.logical_dims[3]));
    const int64_t plane = images_.height * images_.width, pixels = images_.channels * plane;
    if (x.count != x.dims[0] * pixels) {
      return absl::InvalidArgumentError(absl::StrCat("images are split by samples only, but ", x.dims[0], " of ",
                                                     pixels, " pixels are ", x.count, " elements"));
    }
    const int64_t first_x = FirstSample(step, micro_batch, micro_batches, x, row_shift);
    std::vector<uint8_t> image(pixels);
    for (int64_t row = 0; row < x.dims[0]; ++row) {
      OF_RETURN_IF_ERROR(ReadImage(Index(first_x + row), image));
      float* to = x.as<float>() + row * pixels;
      for (int64_t c = 0; c < images_.channels; ++c) {
        const float scale = scales_[c], shift = shifts_[c];
        for (int64_t i = c * plane; i < (c + 1) * plane; ++i) to[i] = static_cast<float>(image[i]) * scale + shift;
      }
    }
    const int64_t first_y = FirstSample(step, micro_batch, micro_batches, y, row_shift);
    for (int64_t row = 0; row < y.dims[0]; ++row) y.as<int32_t>()[row] = images_.labels[Index(first_y + row)];
    return absl::OkStatus();
  }

  // InvalidArgument unless the images are of these sizes.
  static absl::Status CheckSizes(const LabelledImages& images, int64_t channels, int64_t height, int64_t width) {
    if (channels == images.channels && height == images.height && width == images.width) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(DataFileWhere(images.files[0].file.path()), ": its images are ",
                                                   images.channels, "x", images.height, "x", images.width,
                                                   ", the model reads ", channels, "x", height, "x", width));
  }

 private:
  absl::Status ReadImage(int64_t index, std::vector<uint8_t>& image) const {
    size_t at = 0;
    for (; index >= images_.files[at].count; ++at) index -= images_.files[at].count;
    const LabelledImages::File& file = images_.files[at];
    return file.file.ReadAt(file.begin + index * file.stride, absl::MakeSpan(image));
  }

  int64_t Index(int64_t sample) const {
    const int64_t n = num_samples();
    if (!shuffled_) return sample % n;
    const uint64_t epoch = static_cast<uint64_t>(sample / n);
    return static_cast<int64_t>(PermutedIndex(RandomKey(seed_, epoch), n, sample % n));
  }

  const LabelledImages images_;
  std::vector<float> scales_, shifts_;  // of a pixel from 0 to 255, by channel
  const bool shuffled_;
  const uint64_t seed_;
};

// What the attribute says of each channel: a number for all, or a text with one for each; 0.5 if it is not there.
absl::StatusOr<std::vector<double>> PerChannel(const AttrMap& attributes, const std::string& name, int64_t channels) {
  const std::string text = attributes.String(name);
  if (text.empty()) return std::vector<double>(channels, attributes.Double(name, 0.5));
  const std::optional<std::vector<double>> values = ParseLiteral(text);
  if (values.has_value() && static_cast<int64_t>(values->size()) == channels) return *values;
  return absl::InvalidArgumentError(
      absl::StrCat("images: ", name, " '", text, "' is no list of a number for each of ", channels, " channels"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Source>> SourceOfImages(LabelledImages images, const AttrMap& attributes) {
  if (images.labels.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(DataFileWhere(images.files[0].file.path()), " has 0 images"));
  }
  // Properties that the model needs, as far as the attributes state them. Sizes and labels are checked when the source
  // is opened, not in the batch that has them.
  OF_RETURN_IF_ERROR(ImageSource::CheckSizes(images, attributes.Int("channels", images.channels),
                                             attributes.Int("height", images.height),
                                             attributes.Int("width", images.width)));
  const int64_t classes = attributes.Int("classes", 256);
  for (size_t i = 0; i < images.labels.size(); ++i) {
    if (images.labels[i] < classes) continue;
    return absl::InvalidArgumentError(absl::StrCat(DataFileWhere(images.labels_path), ": label ",
                                                   static_cast<int>(images.labels[i]), " of image ", i,
                                                   " is outside the ", classes, " classes"));
  }
  OF_ASSIGN_OR_RETURN(const bool train, IsTrainSplit(attributes));
  OF_ASSIGN_OR_RETURN(const std::vector<double> means, PerChannel(attributes, "mean", images.channels));
  OF_ASSIGN_OR_RETURN(const std::vector<double> deviations, PerChannel(attributes, "std", images.channels));
  for (int64_t c = 0; c < images.channels; ++c) {
    if (std::isfinite(means[c]) && deviations[c] > 0 && std::isfinite(deviations[c])) continue;
    return absl::InvalidArgumentError(absl::StrCat("images: mean ", means[c], " and std ", deviations[c],
                                                   " of channel ", c,
                                                   " are not finite numbers, or std is not positive"));
  }
  return std::make_unique<ImageSource>(std::move(images), means, deviations, train,
                                       static_cast<uint64_t>(attributes.Int("seed")));
}

}  // namespace oneflow
