// Images of one size with a class each, as bytes in files, and the source that reads them.
//
//   train: every epoch is a permutation of all images that depends on (seed, epoch) only
//   validation: in the order of the files, starting over at the end
//
// Pixels become (byte / 255 - mean) / std, of all channels or of their own: in [-1, 1] where nothing else is said.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "actor/data/data_file.h"
#include "actor/data/source.h"

namespace oneflow {

struct LabelledImages {
  // Image i of a file has its channels * height * width bytes at begin + i * stride.
  struct File {
    DataFile file;
    int64_t begin = 0, stride = 0, count = 0;
  };
  std::vector<File> files;
  int64_t channels = 1, height = 0, width = 0;
  // Of the images of all files, in their order; and what a label's number counts from, in errors: a file's path.
  std::vector<uint8_t> labels;
  std::string labels_path;
};

// Attributes: split, seed, and optionally channels, height, width (what the model reads), classes (labels at or above
// it are refused), mean and std (a number, or a text with one for each channel: "0.49,0.48,0.44"). InvalidArgument
// naming the first file and both values where they disagree with the
// images, or there are none. REQUIRES: there is a file, and a label for each image.
absl::StatusOr<std::unique_ptr<Source>> SourceOfImages(LabelledImages images, const AttrMap& attributes);

}  // namespace oneflow
