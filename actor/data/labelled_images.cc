#include "actor/data/labelled_images.h"

#include <cmath>
#include <utility>

#include "actor/data/permutation.h"
#include "actor/data/sample_range.h"
#include "kernels/random.h"

namespace oneflow {
namespace {

class ImageSource : public Source {
 public:
  ImageSource(LabelledImages images, double mean, double deviation, bool shuffled, uint64_t seed)
      : images_(std::move(images)),
        scale_(static_cast<float>(1 / (255 * deviation))),
        shift_(static_cast<float>(-mean / deviation)),
        shuffled_(shuffled),
        seed_(seed) {}

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
    const int64_t pixels = images_.channels * images_.height * images_.width;
    if (x.count != x.dims[0] * pixels) {
      return absl::InvalidArgumentError(absl::StrCat("images are split by samples only, but ", x.dims[0], " of ",
                                                     pixels, " pixels are ", x.count, " elements"));
    }
    const int64_t first_x = FirstSample(step, micro_batch, micro_batches, x, row_shift);
    std::vector<uint8_t> image(pixels);
    for (int64_t row = 0; row < x.dims[0]; ++row) {
      OF_RETURN_IF_ERROR(ReadImage(Index(first_x + row), image));
      float* to = x.as<float>() + row * pixels;
      for (int64_t i = 0; i < pixels; ++i) to[i] = static_cast<float>(image[i]) * scale_ + shift_;
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
  const float scale_, shift_;  // of a pixel from 0 to 255
  const bool shuffled_;
  const uint64_t seed_;
};

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
  const double mean = attributes.Double("mean", 0.5), deviation = attributes.Double("std", 0.5);
  if (!std::isfinite(mean) || !(deviation > 0) || std::isinf(deviation)) {
    return absl::InvalidArgumentError(
        absl::StrCat("images: mean ", mean, " and std ", deviation, " are not finite numbers, or std is not positive"));
  }
  return std::make_unique<ImageSource>(std::move(images), mean, deviation, train,
                                       static_cast<uint64_t>(attributes.Int("seed")));
}

}  // namespace oneflow
