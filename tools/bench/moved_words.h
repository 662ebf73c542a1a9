// The part of edges-masha that is a language model: an adversary moves the vectors of all windows of words
// (next_word.h) so that the loss grows, against a penalty, while the model learns. Gradients at half steps, exactly and
// in codes.
#pragma once

#include <string>
#include <vector>

#include "oneflow_core/status.h"
#include "tools/bench/bench_case.h"

namespace oneflow {

struct MovedWords {
  std::string name;
  double loss = 0;   // of words that were not trained on, moved; a mean over seeds
  double bytes = 0;  // that ranks move in all steps
};

// The first is the exact one. Takes some minutes. NotFound without the text; errors as of MakeJob and RunToEnd.
absl::StatusOr<std::vector<MovedWords>> MeasureMovedWords(const BenchContext& context);

// With their bars.
std::string MovedWordsText(const std::vector<MovedWords>& rows);

}  // namespace oneflow
