// The data that models are trained on: where it lies, and the node that reads a micro-batch of it. Samples are dealt
// out along mesh axis "dp".
#pragma once

#include <cstdint>
#include <source_location>
#include <string>

#include "oneflow_core/builder.h"

namespace oneflow {

// A file of bytes, each a token. Its last `validation_fraction` is kept for evaluation.
struct TextData {
  std::string path;
  double validation_fraction = 0.05;
};

// Images and labels in IDX files, plain or gzip-compressed; evaluation uses the test files.
struct ImageData {
  std::string train_images, train_labels;
  std::string test_images, test_labels;
  int64_t channels = 1, height = 28, width = 28;
};

// InvalidArgument naming `model` and the size if an image has no pixels or too many.
absl::Status CheckImages(absl::string_view model, const ImageData& data);

enum class DataSplit { kTrain, kValidation };

// `inputs`: tokens i32[batch,context] or images f32[batch,channels,height,width]. `labels`: the next tokens, of the
// same shape, or classes i32[batch].
struct Batch {
  Tensor inputs;
  Tensor labels;
};

// Every token is below `vocabulary`.
Batch ReadTextBatch(GraphBuilder& b, const TextData& data, DataSplit split, int64_t batch, int64_t context,
                    int64_t vocabulary, std::source_location loc = std::source_location::current());
Batch ReadImageBatch(GraphBuilder& b, const ImageData& data, DataSplit split, int64_t batch,
                     std::source_location loc = std::source_location::current());

}  // namespace oneflow
