// A file of bytes as a language-model data set: every byte is a token.
//
//   |<------------- train ------------->|<- validation ->|
//   train: sample i begins at a random offset that depends on (seed, i) only
//   validation: windows of `context` tokens one after another, starting over at the end
//   tokens = bytes[o, o + context), labels = bytes[o + 1, o + context + 1)
#pragma once

#include <memory>

#include "actor/data/source.h"

namespace oneflow {

// Attributes: path, split, validation_fraction, seed, and optionally vocabulary (bytes at or above it are refused).
absl::StatusOr<std::unique_ptr<Source>> OpenTextSource(const AttrMap& attributes);

}  // namespace oneflow
