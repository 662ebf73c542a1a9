// Which code each of several tensors travels with: the fewest bytes whose errors together are no more than those of the
// usual codes (L-GreCo; Markov, Alim, Frantar and Alistarh, MLSys 2024).
//
//   min  sum of bytes[t][c_t]     subject to     sum of error[t][c_t] <= alpha * sum of error[t][usual_t]
//
// A knapsack, solved exactly over errors in steps of a 10,000th of the budget, each rounded up: so what is chosen keeps
// the budget, and a code whose error is above it is no candidate. What is chosen never has more bytes than the usual
// codes, which keep the budget as they are.
#pragma once

#include <vector>

#include "absl/types/span.h"

namespace oneflow {

inline constexpr int kErrorSteps = 10000;          // of a budget
inline constexpr int kMostCodeCandidates = 10000;  // of a tensor
inline constexpr int kMostCodedTensors = 10000;

struct CodeCandidate {
  double error = 0;  // not negative
  double bytes = 0;
};

struct CodedTensor {
  std::vector<CodeCandidate> candidates;
  int usual = 0;  // one of them
};

// The number of the candidate of each tensor. An error that is no number, or negative, is above any budget; if one of a
// usual code is no number, the usual codes are chosen. Takes tensors * candidates * kErrorSteps operations, and
// tensors * kErrorSteps words of memory. REQUIRES: alpha >= 1; there are no more than these.
std::vector<int> ChooseCodes(absl::Span<const CodedTensor> tensors, double alpha);

}  // namespace oneflow
