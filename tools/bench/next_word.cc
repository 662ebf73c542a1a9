#include "tools/bench/next_word.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/functional.h"
#include "oneflow_core/graph_text.h"
#include "oneflow_core/nn/initial.h"
#include "oneflow_core/nn/linear.h"
#include "oneflow_core/text_list.h"

namespace oneflow {
namespace {

constexpr int64_t kWords = 2000, kWordContext = 8, kVectorOfWord = 48;
constexpr int64_t kWordWidths[] = {256, 128, kWords};

std::vector<std::string> WordColumns() {
  std::vector<std::string> names;
  for (int64_t i = 0; i < kWordContext; ++i) names.push_back(absl::StrCat("w", i));
  return names;
}

// The loss of predicting the word behind each window.
absl::StatusOr<Graph> NextWord(const OpRegistry& ops, bool trains, const WordBatches& from, double penalty) {
  GraphBuilder b(ops, trains ? "train" : "evaluate");
  const std::vector<Tensor> read = b.Op("read_data", {},
                                        {{"dataset", "csv"},
                                         {"path", from.path},
                                         {"separator", ","},
                                         {"split", trains ? "train" : "validation"},
                                         {"batch", from.batch},
                                         {"features", JoinTexts(WordColumns())},
                                         {"label", "next"},
                                         {"classes", kWords}});
  // Copies everywhere: what ranks send is gradients alone, where parts of weights would have to be gathered.
  const SbpHint by_samples = {{"dp", Sbp::Split(0)}}, copies = {{"dp", Sbp::Broadcast()}};
  const Tensor words = Cast(read[0].To(by_samples), DType::kInt32);
  const Tensor table = b.Variable("embedding", {DType::kFloat32, {kWords, kVectorOfWord}}, "normal(1)", copies);
  Tensor x = Reshape(Embedding(table, words), {from.batch, kWordContext * kVectorOfWord}), shift;
  if (penalty > 0) {
    shift = b.Variable("shift", {DType::kFloat32, {kWordContext * kVectorOfWord}}, "zeros", copies);
    x = Add(x, shift);
  }
  for (size_t i = 0; i < std::size(kWordWidths); ++i) {
    if (i > 0) x = Relu(x);
    const double deviation = std::sqrt(2.0 / static_cast<double>(x.shape()[1]));
    x = nn::Linear(
        x, absl::StrCat("layer", i),
        {.width = kWordWidths[i], .init = nn::Normal(deviation), .weight_hint = copies, .bias_hint = copies});
  }
  const Tensor loss = ReduceMean(SoftmaxCrossEntropy(x, read[1].To(by_samples)));
  if (trains) b.SetLoss(penalty > 0 ? Sub(loss, Scale(ReduceSum(Square(shift), {0}), penalty / 2)) : loss);
  b.Op("fetch", {loss}, {{"name", "loss"}});
  return b.Finish();
}

}  // namespace

// Words, other characters that are not blank, and ends of lines.
WordText::WordText(const std::string& text) {
  std::vector<std::string> all;
  const auto is_of_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  for (size_t i = 0; i < text.size();) {
    size_t end = i + 1;
    while (is_of_word(text[i]) && end < text.size() && is_of_word(text[end])) ++end;
    if (text[i] == '\n' || std::isspace(static_cast<unsigned char>(text[i])) == 0)
      all.push_back(text.substr(i, end - i));
    i = end;
  }
  std::map<std::string, int> times;
  for (const std::string& word : all) ++times[word];
  std::vector<std::pair<int, std::string>> ranked;
  for (const auto& [word, count] : times) ranked.emplace_back(-count, word);
  std::sort(ranked.begin(), ranked.end());
  std::map<std::string, int> numbers;
  for (size_t i = 0; i < ranked.size() && i + 1 < static_cast<size_t>(kWords); ++i) {
    numbers[ranked[i].second] = static_cast<int>(i) + 1;
  }
  for (const std::string& word : all) {
    const auto number = numbers.find(word);
    words_.push_back(number == numbers.end() ? 0 : number->second);
  }
  boundary_ = words_.size() / 10 * 9;
}

void WordText::WriteTrainWindows(const std::string& path, int64_t rows, uint64_t seed) const {
  Write(path, 0, boundary_, rows, seed);
}

void WordText::WriteTestWindows(const std::string& path, int64_t rows, uint64_t seed) const {
  Write(path, boundary_, words_.size(), rows, seed);
}

void WordText::Write(const std::string& path, size_t begin, size_t end, int64_t rows, uint64_t seed) const {
  std::mt19937_64 random(seed);
  std::ofstream file(path);
  file << absl::StrJoin(WordColumns(), ",") << ",next\n";
  std::string text;
  for (int64_t row = 0; row < rows; ++row) {
    const size_t at = begin + random() % (end - begin - static_cast<size_t>(kWordContext));
    text.clear();
    for (int64_t i = 0; i < kWordContext; ++i) absl::StrAppend(&text, words_[at + static_cast<size_t>(i)], ",");
    absl::StrAppend(&text, words_[at + static_cast<size_t>(kWordContext)], "\n");
    file << text;
  }
}

absl::Status WriteNextWordGraphs(const OpRegistry& ops, const std::string& folder, const WordBatches& train,
                                 const WordBatches& test, double penalty) {
  std::filesystem::create_directories(folder);
  for (const bool trains : {true, false}) {
    OF_ASSIGN_OR_RETURN(const Graph graph, NextWord(ops, trains, trains ? train : test, penalty));
    std::ofstream(absl::StrCat(folder, "/", trains ? "train" : "evaluate", ".graph")) << GraphToText(graph);
  }
  return absl::OkStatus();
}

}  // namespace oneflow
