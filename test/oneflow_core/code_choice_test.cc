#include "oneflow_core/code_choice.h"

#include <cmath>
#include <limits>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace oneflow {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Totals {
  double error = 0, bytes = 0;
  int steps = 0;  // of errors that are rounded up
};

double BudgetOf(const std::vector<CodedTensor>& tensors, double alpha) {
  double sum = 0;
  for (const CodedTensor& tensor : tensors) sum += alpha * tensor.candidates[tensor.usual].error;
  return sum;
}

Totals TotalsOf(const std::vector<CodedTensor>& tensors, const std::vector<int>& choice, double budget) {
  Totals totals;
  for (size_t t = 0; t < tensors.size(); ++t) {
    const CodeCandidate& candidate = tensors[t].candidates[choice[t]];
    totals.error += candidate.error;
    totals.bytes += candidate.bytes;
    if (candidate.error > budget) totals.steps += kErrorSteps + 1;
    if (candidate.error > 0 && candidate.error <= budget) {
      totals.steps += static_cast<int>(std::ceil(candidate.error / budget * kErrorSteps));
    }
  }
  return totals;
}

// The least bytes of all choices whose rounded errors keep the budget, and of the usual one.
double LeastBytes(const std::vector<CodedTensor>& tensors, double budget) {
  std::vector<int> choice(tensors.size(), 0);
  std::vector<int> usual;
  for (const CodedTensor& tensor : tensors) usual.push_back(tensor.usual);
  double least = TotalsOf(tensors, usual, budget).bytes;
  for (size_t t = 0; t < tensors.size();) {
    const Totals totals = TotalsOf(tensors, choice, budget);
    if (totals.steps <= kErrorSteps) least = std::min(least, totals.bytes);
    for (t = 0; t < tensors.size(); ++t) {
      if (++choice[t] < static_cast<int>(tensors[t].candidates.size())) break;
      choice[t] = 0;
    }
  }
  return least;
}

TEST(CodeChoiceTest, IsTheBestOfAll) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % n); };
  std::exponential_distribution<double> scale(1);
  for (int instance = 0; instance < 200; ++instance) {
    std::vector<CodedTensor> tensors(1 + below(5));
    for (CodedTensor& tensor : tensors) {
      const double size = 1 + below(1000), energy = scale(random);
      const int codes = 1 + below(6);
      for (int c = 0; c < codes; ++c) {
        // Mostly, more bytes have less error.
        tensor.candidates.push_back({below(20) == 0 ? 0 : energy * scale(random) / (c + 1), size * (c + 1)});
      }
      tensor.usual = below(codes);
    }
    const double alpha = below(2) == 0 ? 1 : 1 + scale(random), budget = BudgetOf(tensors, alpha);
    const Totals chosen = TotalsOf(tensors, ChooseCodes(tensors, alpha), budget);
    EXPECT_DOUBLE_EQ(chosen.bytes, LeastBytes(tensors, budget)) << "instance " << instance;
    EXPECT_LE(chosen.error, budget * (1 + 1e-12)) << "instance " << instance;
  }
}

TEST(CodeChoiceTest, BytesGoWhereTheyTakeMostErrorAway) {
  // The first tensor is all noise; the second is done with few bytes.
  const std::vector<CodedTensor> tensors = {{{{9, 10}, {8, 20}, {7, 40}}, 1}, {{{1, 10}, {0.5, 20}, {0, 40}}, 1}};
  EXPECT_THAT(ChooseCodes(tensors, 1), ElementsAre(1, 1));
  EXPECT_THAT(ChooseCodes({{{{1.4, 10}, {1, 20}, {0.9, 40}}, 1}, {{{4, 1}, {3, 2}, {2.5, 4}}, 1}}, 1),
              ElementsAre(0, 2));
}

TEST(CodeChoiceTest, AnErrorAboveTheBudgetIsNoCandidate) {
  // Rounded down to the budget it would be chosen.
  EXPECT_THAT(ChooseCodes({{{{100, 1}, {1, 5}}, 1}}, 1), ElementsAre(1));
  EXPECT_THAT(ChooseCodes({{{{1.00001, 1}, {1, 5}}, 1}}, 1), ElementsAre(1));
  EXPECT_THAT(ChooseCodes({{{{1.00001, 1}, {1, 5}}, 1}}, 1.1), ElementsAre(0));
}

TEST(CodeChoiceTest, WithoutErrorsTheFewestBytesAreChosen) {
  EXPECT_THAT(ChooseCodes({{{{0, 3}, {0, 5}}, 1}, {{{0.1, 1}, {0, 2}}, 1}}, 1), ElementsAre(0, 1));
  EXPECT_THAT(ChooseCodes({}, 1), IsEmpty());
}

TEST(CodeChoiceTest, ErrorsThatAreNoNumbersChangeNothing) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(ChooseCodes({{{{0, 3}, {nan, 5}}, 1}}, 1), ElementsAre(1));
  EXPECT_THAT(ChooseCodes({{{{nan, 3}, {1, 5}, {0.5, 4}}, 1}}, 1), ElementsAre(2));
  EXPECT_THAT(ChooseCodes({{{{-3, 3}, {1, 5}, {0.5, 4}}, 1}}, 1), ElementsAre(2));
  EXPECT_THAT(ChooseCodes({{{{1, 3}, {-1, 5}}, 1}}, 1), ElementsAre(1));
}

}  // namespace
}  // namespace oneflow
