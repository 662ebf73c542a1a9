// The data that models are trained on: where it lies, and the node that reads a micro-batch of it. Samples are dealt
// out along mesh axis "dp". Each kind has a file in oneflow_core/data/; models that read several kinds take them from
// the table of data_kind.h there.
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

// Images that the engine makes: one of its own for each class, and samples that are their class' image under normal
// noise.
struct PrototypeData {
  int64_t classes = 1000;
  int64_t samples = 100'000, validation_samples = 5'000;
  int64_t channels = 1, height = 8, width = 8;
  double noise = 0.5;  // standard deviation; pixels are in [-1, 1]
};

// Categorical fields and numbers of people who may click, made by the engine (actor/data/made_source.cc says how).
struct ClickData {
  int64_t fields = 8;
  int64_t vocabulary = 100'000;  // ids of all fields together
  int64_t numbers = 4;
  int64_t samples = 1'000'000, validation_samples = 20'000;
};

// What the fields of a job's data say (data_kind.h), which are within their ranges.
TextData TextDataOf(const AttrMap& fields);
PrototypeData PrototypeDataOf(const AttrMap& fields);
ClickData ClickDataOf(const AttrMap& fields);

// InvalidArgument naming `model` and the size if an image has no pixels or too many.
absl::Status CheckImages(absl::string_view model, const ImageData& data);

enum class DataSplit { kTrain, kValidation };

// `inputs`: tokens i32[batch,context], images f32[batch,channels,height,width] or numbers f32[batch,n]. `labels`: the
// next tokens, of the same shape as tokens, classes i32[batch], or what is to be estimated, f32[batch].
struct Batch {
  Tensor inputs;
  Tensor labels;
};

// Every token is below `vocabulary`.
Batch ReadTextBatch(GraphBuilder& b, const TextData& data, DataSplit split, int64_t batch, int64_t context,
                    int64_t vocabulary, std::source_location loc = std::source_location::current());
Batch ReadImageBatch(GraphBuilder& b, const ImageData& data, DataSplit split, int64_t batch,
                     std::source_location loc = std::source_location::current());
// Samples are dealt out along "dp" and, on each of its ranks, along "tp": for models whose layers before the last are
// the same everywhere.
Batch ReadPrototypeBatch(GraphBuilder& b, const PrototypeData& data, DataSplit split, int64_t batch,
                         std::source_location loc = std::source_location::current());

// Texts and what each is: of the column `text` and the column `label` of a CSV file, by the fields of the job's message
// Texts. Every token is below `vocabulary`.
struct LabelledTexts {
  Tensor tokens;   // i32[batch,context]
  Tensor labels;   // i32[batch]
  Tensor padding;  // i32[batch,context]: 1 behind the tokens of a text, 0 elsewhere
};
LabelledTexts ReadLabelledTexts(GraphBuilder& b, const AttrMap& fields, DataSplit split, int64_t batch, int64_t context,
                                int64_t vocabulary, std::source_location loc = std::source_location::current());

struct ClickBatch {
  Tensor ids;      // i32[batch,fields]
  Tensor numbers;  // f32[batch,numbers]
  Tensor clicked;  // i32[batch]: 1 or 0
};
ClickBatch ReadClickBatch(GraphBuilder& b, const ClickData& data, DataSplit split, int64_t batch,
                          std::source_location loc = std::source_location::current());

// What workers have of a game (actor/data/game.h): f32[batch,d,d], [batch,d], [batch,d], and [batch,2d].
struct GameBatch {
  Tensor matrices, of_x, of_y, solution;
};
GameBatch ReadGameBatch(GraphBuilder& b, const AttrMap& fields, DataSplit split, int64_t batch,
                        std::source_location loc = std::source_location::current());

}  // namespace oneflow
