#include "oneflow_core/code_choice.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

namespace oneflow {
namespace {

constexpr double kNoBytes = std::numeric_limits<double>::infinity();  // of errors that nothing keeps
constexpr int kAbove = kErrorSteps + 1;                               // steps of an error that is above the budget

// In steps of the budget, rounded up. What is no error, such as a negative number from a plan of others, is above it.
int StepsOf(double error, double budget) {
  if (!(error >= 0 && error <= budget)) return kAbove;
  return error == 0 ? 0 : static_cast<int>(std::ceil(error / budget * kErrorSteps));
}

std::vector<int> UsualCodes(absl::Span<const CodedTensor> tensors) {
  std::vector<int> usual;
  for (const CodedTensor& tensor : tensors) usual.push_back(tensor.usual);
  return usual;
}

double BytesOf(absl::Span<const CodedTensor> tensors, const std::vector<int>& choice) {
  double bytes = 0;
  for (size_t t = 0; t < tensors.size(); ++t) bytes += tensors[t].candidates[choice[t]].bytes;
  return bytes;
}

}  // namespace

std::vector<int> ChooseCodes(absl::Span<const CodedTensor> tensors, double alpha) {
  double budget = 0;
  for (const CodedTensor& tensor : tensors) budget += alpha * tensor.candidates[tensor.usual].error;
  const std::vector<int> usual = UsualCodes(tensors);
  if (tensors.empty() || !std::isfinite(budget)) return usual;
  // Bytes of the tensors so far, by the steps that their errors take; and the code of the last of them.
  std::vector<double> least(kErrorSteps + 1, kNoBytes);
  std::vector<std::vector<int16_t>> code(tensors.size(), std::vector<int16_t>(kErrorSteps + 1, -1));
  least[0] = 0;
  for (size_t t = 0; t < tensors.size(); ++t) {
    std::vector<double> next(kErrorSteps + 1, kNoBytes);
    for (size_t c = 0; c < tensors[t].candidates.size(); ++c) {
      const CodeCandidate& candidate = tensors[t].candidates[c];
      const int steps = StepsOf(candidate.error, budget);
      for (int all = steps; all <= kErrorSteps; ++all) {
        const double bytes = least[all - steps] + candidate.bytes;
        if (bytes >= next[all]) continue;
        next[all] = bytes;
        code[t][all] = static_cast<int16_t>(c);
      }
    }
    least = std::move(next);
  }
  int best = 0;
  for (int all = 1; all <= kErrorSteps; ++all) {
    if (least[all] < least[best]) best = all;
  }
  if (!(least[best] < BytesOf(tensors, usual))) return usual;
  std::vector<int> choice(tensors.size());
  for (size_t t = tensors.size(); t-- > 0;) {
    choice[t] = code[t][best];
    best -= StepsOf(tensors[t].candidates[choice[t]].error, budget);
  }
  return choice;
}

}  // namespace oneflow
