// Labelled images in IDX files (the format of MNIST), plain or gzip-compressed.
//
//   train: every epoch is a permutation of all images that depends on (seed, epoch) only
//   validation: in the order of the file, starting over at the end
// Pixels become (byte / 255 - 0.5) * 2, in [-1, 1].
#pragma once

#include <memory>

#include "actor/data/source.h"

namespace oneflow {

// Attributes: images, labels (paths), split, seed, and optionally classes (labels at or above it are refused).
absl::StatusOr<std::unique_ptr<Source>> OpenImageSource(const AttrMap& attributes);

}  // namespace oneflow
