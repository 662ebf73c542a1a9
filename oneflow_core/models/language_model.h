// What models of text have in common: the graphs that train, evaluate and continue, around a model that turns tokens
// into logits.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "oneflow_core/models/config.h"
#include "oneflow_core/models/data.h"

namespace oneflow {

// How text is continued after training.
struct Continuation {
  std::string prompt;      // its last `context` bytes are used; empty: a newline
  double temperature = 0;  // 0: always the likeliest
};

struct LanguageModel {
  std::string name;  // in errors
  int64_t vocabulary = 256;
  int64_t context = 128;  // tokens per sample
  // tokens i32[n,context] to logits f32[n,context,vocabulary]
  std::function<Tensor(const Tensor& tokens, bool training)> logits = nullptr;
  // Of a micro-batch of tokens and those that follow them; null: the mean cross entropy of the logits. A model that has
  // this and no logits cannot be continued.
  std::function<Tensor(const Batch& samples, bool training)> loss = nullptr;
};

// The graphs "train" (loss, fetched as "loss"), "evaluate" if asked for (fetches "loss") and "generate" if asked for:
// one act of it appends one token to the variables "generate/tokens" i32[1,context] and "generate/length" i32[] and
// fetches it as "token". InvalidArgument naming the model if batches, the data's fraction or the temperature are
// impossible, or a byte of the prompt is outside the vocabulary.
absl::StatusOr<std::vector<Graph>> LanguageModelProgram(const LanguageModel& model, const TextData& data,
                                                        const BatchSizes& batches,
                                                        const std::optional<Continuation>& continuation,
                                                        const OpRegistry& ops);

}  // namespace oneflow
