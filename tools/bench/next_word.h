// A model of the next word from eight, of 485,000 weights, and its data: for cases that compare how models learn.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "oneflow_core/op.h"
#include "oneflow_core/status.h"

namespace oneflow {

// A text as numbers of its words, most frequent first; 0: all that are rare. The first nine tenths are for training.
class WordText {
 public:
  explicit WordText(const std::string& text);
  // CSV files of windows of words that begin anywhere, and of the words behind them.
  void WriteTrainWindows(const std::string& path, int64_t rows, uint64_t seed) const;
  void WriteTestWindows(const std::string& path, int64_t rows, uint64_t seed) const;

 private:
  void Write(const std::string& path, size_t begin, size_t end, int64_t rows, uint64_t seed) const;

  std::vector<int> words_;
  size_t boundary_ = 0;
};

struct WordBatches {
  std::string path;
  int64_t batch = 0;
};

// The graphs "train" and "evaluate" in `folder`, for `model { graph }`. With a penalty an adversary, in variable
// "shift" [384], moves the vectors of all windows alike: the loss is that of the moved ones less
// penalty / 2 * |shift|^2. Fetches "loss", without the penalty.
absl::Status WriteNextWordGraphs(const OpRegistry& ops, const std::string& folder, const WordBatches& train,
                                 const WordBatches& test, double penalty = 0);

}  // namespace oneflow
