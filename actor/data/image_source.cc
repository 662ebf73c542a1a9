// Labelled images in IDX files (the format of MNIST), plain or gzip-compressed.
//
//   train: every epoch is a permutation of all images that depends on (seed, epoch) only
//   validation: in the order of the file, starting over at the end
//
// Pixels become (byte / 255 - mean) / std: in [-1, 1] where nothing else is said.
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "absl/strings/str_join.h"
#include "actor/data/data_file.h"
#include "actor/data/permutation.h"
#include "actor/data/sample_range.h"
#include "actor/data/source.h"
#include "kernels/random.h"

namespace oneflow {
namespace {

struct IdxFile {
  DataFile file;
  std::vector<int64_t> dims;
  int64_t data = 0;  // the beginning
};

// An IDX file of bytes with `num_dims` dimensions: two zero bytes, type 8, the number of dimensions, their sizes
// (big-endian).
absl::StatusOr<IdxFile> OpenIdx(const std::string& path, int num_dims) {
  OF_ASSIGN_OR_RETURN(DataFile file, DataFile::Open(path));
  const auto error = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(DataFileWhere(path), ": ", what));
  };
  const int64_t header = 4 + 4 * int64_t{num_dims};
  if (file.size() < header) return error(absl::StrCat("an IDX header has ", header, " bytes, the file ", file.size()));
  std::vector<uint8_t> bytes(header);
  OF_RETURN_IF_ERROR(file.ReadAt(0, absl::MakeSpan(bytes)));
  if (bytes[0] != 0 || bytes[1] != 0 || bytes[2] != 8 || bytes[3] != num_dims) {
    return error(absl::StrCat("begins with bytes ", absl::StrJoin(bytes.begin(), bytes.begin() + 4, " "),
                              ", but an IDX file of bytes in ", num_dims, " dimensions with 0 0 8 ", num_dims));
  }
  IdxFile idx;
  uint64_t count = 1;
  for (int i = 0; i < num_dims; ++i) {
    const uint8_t* p = bytes.data() + 4 + 4 * i;
    const uint64_t size = (uint64_t{p[0]} << 24) | (p[1] << 16) | (p[2] << 8) | p[3];
    idx.dims.push_back(static_cast<int64_t>(size));
    if (size != 0 && count > (uint64_t{1} << 48) / size) return error("its dimensions overflow");
    count *= size;
  }
  if (static_cast<uint64_t>(file.size() - header) != count) {
    return error(absl::StrCat("its header says ", absl::StrJoin(idx.dims, "x"), " = ", count, " bytes of data, but ",
                              file.size() - header, " follow"));
  }
  idx.data = header;
  idx.file = std::move(file);
  return idx;
}

class ImageSource : public Source {
 public:
  ImageSource(IdxFile images, std::vector<uint8_t> labels, double mean, double deviation, bool shuffled, uint64_t seed)
      : images_(std::move(images)),
        labels_(std::move(labels)),
        scale_(static_cast<float>(1 / (255 * deviation))),
        shift_(static_cast<float>(-mean / deviation)),
        shuffled_(shuffled),
        seed_(seed) {}

  int64_t num_samples() const override { return images_.dims[0]; }

  absl::Status Read(int64_t step, int64_t micro_batch, int64_t micro_batches, std::span<const TensorArg> outputs,
                    int64_t row_shift) override {
    if (outputs.size() != 2)
      return absl::InvalidArgumentError(absl::StrCat("images have 2 outputs, not ", outputs.size()));
    const TensorArg& x = outputs[0];
    const TensorArg& y = outputs[1];
    if (x.dtype != DType::kFloat32 || x.rank != 4 || y.dtype != DType::kInt32 || y.rank != 1) {
      return absl::InvalidArgumentError("images fill f32[batch,channels,height,width] and i32[batch] only");
    }
    const int64_t height = images_.dims[1], width = images_.dims[2];
    if (x.logical_dims[1] != 1 || x.logical_dims[2] != height || x.logical_dims[3] != width ||
        x.count != x.dims[0] * height * width) {
      return absl::InvalidArgumentError(absl::StrCat(DataFileWhere(images_.file.path()), ": its images are 1x", height,
                                                     "x", width, ", the model reads ", x.logical_dims[1], "x",
                                                     x.logical_dims[2], "x", x.logical_dims[3]));
    }
    const int64_t first_x = FirstSample(step, micro_batch, micro_batches, x, row_shift);
    std::vector<uint8_t> image(height * width);
    for (int64_t row = 0; row < x.dims[0]; ++row) {
      const int64_t at = images_.data + Index(first_x + row) * height * width;
      OF_RETURN_IF_ERROR(images_.file.ReadAt(at, absl::MakeSpan(image)));
      float* to = x.as<float>() + row * height * width;
      for (int64_t i = 0; i < height * width; ++i) to[i] = static_cast<float>(image[i]) * scale_ + shift_;
    }
    const int64_t first_y = FirstSample(step, micro_batch, micro_batches, y, row_shift);
    for (int64_t row = 0; row < y.dims[0]; ++row) y.as<int32_t>()[row] = labels_[Index(first_y + row)];
    return absl::OkStatus();
  }

 private:
  int64_t Index(int64_t sample) const {
    const int64_t n = images_.dims[0];
    if (!shuffled_) return sample % n;
    const uint64_t epoch = static_cast<uint64_t>(sample / n);
    return static_cast<int64_t>(PermutedIndex(RandomKey(seed_, epoch), n, sample % n));
  }

  const IdxFile images_;
  const std::vector<uint8_t> labels_;
  const float scale_, shift_;  // of a pixel from 0 to 255
  const bool shuffled_;
  const uint64_t seed_;
};

// Attributes: images, labels (paths), split, seed, and optionally classes (labels at or above it are refused), mean and
// std.
absl::StatusOr<std::unique_ptr<Source>> OpenImageSource(const AttrMap& attributes) {
  OF_ASSIGN_OR_RETURN(IdxFile images, OpenIdx(attributes.String("images"), 3));
  OF_ASSIGN_OR_RETURN(IdxFile labels, OpenIdx(attributes.String("labels"), 1));
  if (images.dims[0] != labels.dims[0] || images.dims[0] == 0) {
    return absl::InvalidArgumentError(absl::StrCat(DataFileWhere(images.file.path()), " has ", images.dims[0],
                                                   " images, but ", DataFileWhere(labels.file.path()), " has ",
                                                   labels.dims[0], " labels"));
  }
  // Properties that the model needs, as far as the attributes state them. Sizes and labels are checked when the source
  // is opened, not in the batch that has them.
  const int64_t height = attributes.Int("height", images.dims[1]), width = attributes.Int("width", images.dims[2]);
  const int64_t channels = attributes.Int("channels", 1);
  if (channels != 1 || height != images.dims[1] || width != images.dims[2]) {
    return absl::InvalidArgumentError(absl::StrCat(DataFileWhere(images.file.path()), ": its images are 1x",
                                                   images.dims[1], "x", images.dims[2], ", the model reads ", channels,
                                                   "x", height, "x", width));
  }
  const int64_t classes = attributes.Int("classes", 256);
  std::vector<uint8_t> of_image(labels.dims[0]);
  OF_RETURN_IF_ERROR(labels.file.ReadAt(labels.data, absl::MakeSpan(of_image)));
  for (int64_t i = 0; i < labels.dims[0]; ++i) {
    if (of_image[i] >= classes) {
      return absl::InvalidArgumentError(absl::StrCat(DataFileWhere(labels.file.path()), ": label ",
                                                     static_cast<int>(of_image[i]), " of image ", i, " is outside the ",
                                                     classes, " classes"));
    }
  }
  OF_ASSIGN_OR_RETURN(const bool train, IsTrainSplit(attributes));
  const double mean = attributes.Double("mean", 0.5), deviation = attributes.Double("std", 0.5);
  if (!std::isfinite(mean) || !(deviation > 0) || std::isinf(deviation)) {
    return absl::InvalidArgumentError(
        absl::StrCat("images: mean ", mean, " and std ", deviation, " are not finite numbers, or std is not positive"));
  }
  return std::make_unique<ImageSource>(std::move(images), std::move(of_image), mean, deviation, train,
                                       static_cast<uint64_t>(attributes.Int("seed")));
}

}  // namespace

std::vector<SourceKind> ImageSources() { return {{"images", OpenImageSource}}; }

}  // namespace oneflow
